// SPDX-License-Identifier: Apache-2.0

package servers_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// P9: names that are hashed are nowhere outside the process, and sessions that hash share their locks, while a plain
// name and its digest are two locks.
func TestHashedNamesAreNowhereOutsideTheProcess(t *testing.T) {
	t.Parallel()
	const name = "patient/Erika Mustermann"
	server, secrets := redistest.Start(t), locktest.NewSecrets(t)
	secrets.Add(name, "Mustermann")
	proxy := redistest.NewProxy(t, server.Addr())
	proxy.SetMatch(func([]string) bool { return true })
	proxy.OnRequest(func(_ int, words []string) { _, _ = fmt.Fprintln(secrets, words) })
	session := func() *signalbox.Session {
		return locktest.Session(t, proxy, whole(), signalbox.WithHashedNames(), signalbox.WithLogger(secrets.Logger()))
	}
	one, two := session(), session()
	lease, err := reentrant.New(one, name).Lock(locktest.Context(t))
	require.NoError(t, err)
	require.Equal(t, []string{"sb:{" + proto.Hash(name) + "}:lock"}, server.Keys("*"))
	_, err = reentrant.New(two, name).TryLock(locktest.Context(t))
	require.ErrorIs(t, secrets.RecordError(err), signalbox.ErrHeld)
	var named *signalbox.OpError
	require.ErrorAs(t, err, &named)
	require.Equal(t, proto.Hash(name), named.Name)

	// Waiting, too.
	waited := make(chan error, 1)
	go func() {
		lease, err := reentrant.New(two, name).Lock(locktest.Context(t))
		if err == nil {
			err = lease.Unlock()
		}
		waited <- err
	}()
	redistest.Await(t, "a waiter", func() bool { return locktest.Channels(two) > 0 })
	require.NoError(t, lease.Unlock())
	require.NoError(t, secrets.RecordError(<-waited))

	plain := locktest.Session(t, server, whole())
	for _, other := range []string{name, proto.Hash(name)} {
		lease, err := reentrant.New(one, name).Lock(locktest.Context(t))
		require.NoError(t, err)
		free, err := reentrant.New(plain, other).TryLock(locktest.Context(t))
		require.NoError(t, err, "%s is another lock", other)
		require.NoError(t, free.Unlock())
		require.NoError(t, lease.Unlock())
	}
	_, err = reentrant.New(one, "").TryLock(locktest.Context(t))
	require.ErrorIs(t, err, signalbox.ErrBadName)
}
