// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/countdown"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/inspect"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/rwlock"
	"github.com/signalbox-go/signalbox/semaphore"
)

func TestTheKindsOfRedisson(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	java := signalbox.WithDefaults(signalbox.WithLayout(redisson.Layout()))
	s, other := locktest.SteadySession(t, server, java), locktest.SteadySession(t, server, java)

	held := locktest.Must(t, reentrant.New(s, "lock").Lock)
	e := only(t, s, "lock")
	require.Equal(t, []any{inspect.Exclusive, 1, s.ID()}, []any{e.Kind, e.HolderCount, e.Holders[0].Session})
	require.Zero(t, e.Since)
	require.NoError(t, held.Unlock())

	held = locktest.Must(t, fair.New(s, "fair").Lock)
	waits := waiting(t, s, "fair", 1, fair.New(other, "fair").Lock)
	e = only(t, s, "fair")
	require.Equal(t, []any{inspect.Fair, 1, other.ID(), true}, []any{e.Kind, e.WaiterCount, e.Waiters[0].Session, e.Waiters[0].Alive})
	require.NoError(t, inspect.Break(locktest.Context(t), other, "fair"))
	unlocked(t, waits)
	require.ErrorIs(t, held.Unlock(), signalbox.ErrLost)

	for _, read := range []bool{true, false} {
		lock := rwlock.New(s, "rw").Lock
		if read {
			lock = rwlock.New(s, "rw").RLock
		}
		held = locktest.Must(t, lock)
		e = only(t, other, "rw")
		require.Equal(t, []any{inspect.RWLock, 1, read, s.ID()}, []any{e.Kind, e.HolderCount, e.Holders[0].Shared, e.Holders[0].Session})
		require.NoError(t, held.Unlock())
	}

	for name, options := range map[string][]signalbox.LockOption{"permits": nil, "plain": {semaphore.Plain()}} {
		permits, err := semaphore.New(s, name, 5, options...).Acquire(locktest.Context(t), 2)
		require.NoError(t, err)
		e = only(t, s, name)
		require.Equal(t, []any{inspect.Semaphore, 2, 2}, []any{e.Kind, e.HolderCount, e.Held})
		if name == "permits" {
			require.Equal(t, 5, e.Capacity)
		}
		require.NoError(t, permits.Unlock())
	}

	_, err := countdown.New(s, "latch").Start(locktest.Context(t), 2)
	require.NoError(t, err)
	require.Equal(t, inspect.Number, only(t, s, "latch").Kind)
	require.ErrorIs(t, inspect.Break(locktest.Context(t), s, "latch"), signalbox.ErrWrongKind)
}

func TestOtherKeysBesideRedissonsAreNoLocks(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := locktest.SteadySession(t, server, signalbox.WithDefaults(signalbox.WithLayout(redisson.Layout())))
	server.MustDo(t, "HSET", "user:1", "name", "Erika", "mode", "read")
	server.MustDo(t, "HSET", "user:2", "name", "Erika")
	server.MustDo(t, "SET", "page", "<html>")
	server.MustDo(t, "SET", "long", "123456789012345678901234567890")
	server.MustDo(t, "RPUSH", "list", "1")
	server.MustDo(t, "ZADD", "set", "1", "1")
	server.MustDo(t, "SET", "redisson_lock_token:{x}", "7")
	native := locktest.SteadySession(t, server)
	lease := locktest.Must(t, reentrant.New(native, "native").Lock)
	defer lease.Unlock()
	require.Empty(t, all(t, s, ""))
	for _, name := range []string{"user:1", "page", "list", "set"} {
		_, err := inspect.Name(context.Background(), s, name)
		require.NoError(t, err)
	}
	server.MustDo(t, "SET", "counter", "12")
	require.Equal(t, []string{"counter number"}, kinds(all(t, s, "")))
}
