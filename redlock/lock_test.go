// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/redlock"
)

// P7: one goroutine of a process at a time asks the servers, and the same sessions in another order are the same lock.
func TestGoroutinesOfAProcessAreOneContender(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, 0)
	sessions := w.sessions()
	lease := w.mustLockAll(redlock.New(sessions, w.name))
	for _, p := range w.proxies {
		p.ResetCount()
	}
	const goroutines = 32
	var waiting []<-chan locktest.Result[error]
	for range goroutines {
		mu := redlock.New(sessions, w.name)
		waiting = append(waiting, locktest.Later(func() (error, error) {
			lease, err := mu.Lock(locktest.Context(t))
			return nil, errors.Join(err, lease.Unlock())
		}))
	}
	_, err := redlock.New([]*signalbox.Session{sessions[2], sessions[0], sessions[1]}, w.name).TryLock(t.Context())
	require.ErrorIs(t, err, signalbox.ErrHeld)
	require.NoError(t, lease.Unlock())
	for _, c := range waiting {
		locktest.MustHave(t, c)
	}
	w.awaitFree()
	for _, p := range w.proxies {
		// An acquire and a release each; a few more if a late vote is taken back.
		require.Less(t, p.Requests(), 4*goroutines)
	}
}

// P8: ForceUnlock takes the lock on every server, the holder is notified by message, and a waiter acquires it.
func TestForceUnlockTakesTheLockEverywhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, 0)
	hours := signalbox.WithRenewedLease(time.Hour) // so no renewal reports it
	mu := w.lock(hours)
	require.ErrorIs(t, mu.ForceUnlock(t.Context()), signalbox.ErrNotHeld)
	locked, err := mu.IsLocked(t.Context())
	require.NoError(t, err)
	require.False(t, locked)
	_, err = mu.Holder(t.Context())
	require.ErrorIs(t, err, signalbox.ErrNotHeld)

	sessions := w.sessions(signalbox.WithLabel("host:42"))
	lease := w.mustLockAll(redlock.New(sessions, w.name, hours))
	holder, err := mu.Holder(t.Context())
	require.NoError(t, err)
	require.Equal(t, "redlock", holder.Kind)
	require.Equal(t, "host:42", holder.Label)
	require.Contains(t, []string{sessions[0].ID(), sessions[1].ID(), sessions[2].ID()}, holder.Session)
	locked, err = mu.IsLocked(t.Context())
	require.NoError(t, err)
	require.True(t, locked)

	waiting := locktest.LaterWith(locktest.Context(t), mu.Lock)
	w.awaitWaiter(2)
	require.NoError(t, w.lock().ForceUnlock(t.Context()))
	redistest.Receive(t, "the end of the lease", lease.Done())
	require.ErrorIs(t, lease.Err(), signalbox.ErrLost)
	next := locktest.MustHave(t, waiting)
	require.Greater(t, next.Token(), lease.Token())
	require.NoError(t, next.Unlock())
	w.awaitFree()
}

// A name is hashed in the error too, if the sessions are no quorum and any of them hashes names.
func TestErrorsOfABadQuorumHashTheName(t *testing.T) {
	t.Parallel()
	sessions := []*signalbox.Session{
		locktest.SteadySession(t, shared[0]), locktest.SteadySession(t, shared[0], signalbox.WithHashedNames()), locktest.SteadySession(t, shared[0]),
	}
	for n := 2; n <= 3; n++ {
		err := redlock.New(sessions[:n], "secret").Check()
		require.ErrorIs(t, err, signalbox.ErrBadOption)
		require.ErrorContains(t, err, "%sha256-")
		require.NotContains(t, err.Error(), "secret")
	}
}

// A bad argument is the error of every call, and of Check.
func TestBadArgumentIsTheErrorOfEveryCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, 0)
	good := w.sessions()
	other := locktest.SteadySession(t, shared[0], signalbox.WithPrefix("other:"))
	hashed := locktest.SteadySession(t, shared[0], signalbox.WithHashedNames())
	bad := signalbox.NewSession(nil)
	for name, c := range map[string]struct {
		lock *redlock.Lock
		want error
	}{
		"None":           {redlock.New(nil, "a"), signalbox.ErrBadOption},
		"One":            {redlock.New(good[:1], "a"), signalbox.ErrBadOption},
		"Even":           {redlock.New(append(good[:3:3], locktest.SteadySession(t, shared[0])), "a"), signalbox.ErrBadOption},
		"Nil":            {redlock.New([]*signalbox.Session{good[0], nil, good[1]}, "a"), signalbox.ErrBadOption},
		"Bad":            {redlock.New([]*signalbox.Session{good[0], bad, good[1]}, "a"), signalbox.ErrBadOption},
		"Twice":          {redlock.New([]*signalbox.Session{good[0], good[1], good[0]}, "a"), signalbox.ErrBadOption},
		"Prefix":         {redlock.New([]*signalbox.Session{good[0], good[1], other}, "a"), signalbox.ErrBadOption},
		"Hashed":         {redlock.New([]*signalbox.Session{good[0], good[1], hashed}, "a"), signalbox.ErrBadOption},
		"Cluster":        {redlock.New([]*signalbox.Session{good[0], good[1], ofCluster(t)}, "a"), signalbox.ErrBadOption},
		"Replicas":       {redlock.New(good, "a", signalbox.WithReplicas(1, time.Second)), signalbox.ErrBadOption},
		"Lease":          {redlock.New(good, "a", signalbox.WithFixedLease(time.Millisecond)), signalbox.ErrBadOption},
		"Greatest":       {redlock.New(good, "a", redlock.GreatestLease(time.Second)), signalbox.ErrBadOption},
		"GreatestLength": {redlock.New(good, "a", redlock.GreatestLease(48*time.Hour)), signalbox.ErrBadOption},
		"Name":           {redlock.New(good, ""), signalbox.ErrBadName},
		"LongName":       {redlock.New(good, strings.Repeat("x", 513)), signalbox.ErrBadName},
	} {
		require.ErrorIs(t, c.lock.Check(), c.want, name)
		_, err := c.lock.Lock(t.Context())
		require.ErrorIs(t, err, c.want, name)
		_, err = c.lock.TryLock(t.Context())
		require.ErrorIs(t, err, c.want, name)
		_, err = c.lock.Holder(t.Context())
		require.ErrorIs(t, err, c.want, name)
		require.ErrorIs(t, c.lock.ForceUnlock(t.Context()), c.want, name)
		require.ErrorIs(t, c.lock.Do(t.Context(), nil), c.want, name)
	}
	mu := redlock.New(good, "a", nil, signalbox.LockOption(nil), signalbox.WithRenewedLease(time.Second), redlock.Fenced(), redlock.GreatestLease(time.Minute))
	require.NoError(t, mu.Check())
	_, err := mu.Lock(nil) //nolint:staticcheck // asks for it
	require.ErrorIs(t, err, signalbox.ErrBadOption)
}

// ofCluster returns a session of a cluster, of one server.
func ofCluster(t *testing.T) *signalbox.Session {
	t.Helper()
	server := redistest.Start(t, redistest.WithArgs("--cluster-enabled", "yes"))
	server.MustDo(t, "CLUSTER", "ADDSLOTSRANGE", 0, redistest.Slots-1)
	return locktest.SteadySession(t, server)
}
