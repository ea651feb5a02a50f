// SPDX-License-Identifier: Apache-2.0

package reentrant_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// waiters returns all waiters of a lock.
func waiters(t *testing.T, mu *reentrant.Lock) (all []signalbox.Waiter) {
	t.Helper()
	for w, err := range mu.Waiters(t.Context()) {
		require.NoError(t, err)
		all = append(all, w)
	}
	return all
}

// P7: a session has one ticket, however many of its goroutines wait, and Waiters returns the tickets in their order.
func TestASessionHasOneTicketForAllItsGoroutines(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := reentrant.New(locktest.SteadySession(t, server), "a")
	require.Empty(t, waiters(t, mu))
	lease := locktest.Must(t, mu.Lock)
	before := locktest.ServerTime(t, server)
	ctx, cancel := context.WithCancel(t.Context())
	var waiting []<-chan locktest.Result[signalbox.Lease]
	var sessions []string
	for _, label := range []string{"one", "other"} {
		s := locktest.SteadySession(t, server, signalbox.WithLabel(label))
		sessions = append(sessions, s.ID())
		waiting = append(waiting, locktest.Enqueue(ctx, t, server, "a", reentrant.New(s, "a").Lock))
		for range 5 {
			waiting = append(waiting, locktest.Queue(ctx, t, reentrant.New(s, "a").Lock))
		}
	}
	waiting = append(waiting, locktest.Queue(ctx, t, mu.Lock)) // the holder's session has no ticket
	all := waiters(t, mu)
	require.Len(t, all, 2)
	for i, w := range all {
		require.WithinRange(t, w.Since, before, locktest.ServerTime(t, server))
		require.Equal(t, signalbox.Waiter{
			Position: i + 1, Session: sessions[i], Alive: true, Label: []string{"one", "other"}[i], Since: w.Since,
		}, w)
	}
	cancel()
	for _, w := range waiting {
		require.ErrorIs(t, locktest.MustFail(t, w), context.Canceled)
	}
	redistest.Await(t, "an empty queue", func() bool { return len(waiters(t, mu)) == 0 })
	require.NoError(t, lease.Unlock())
}

// P7: newcomers send nothing while their session holds the lock, or waits for it.
func TestNewcomersSendNothingWhileTheSessionHoldsOrWaits(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	mu := reentrant.New(locktest.SteadySession(t, proxy), "a")
	elsewhere := reentrant.New(locktest.SteadySession(t, server), "a")
	come := func() (waiting []<-chan locktest.Result[signalbox.Lease]) {
		matchAcquires(proxy)
		for range 5 {
			waiting = append(waiting, locktest.Queue(t.Context(), t, mu.Lock))
			_, err := mu.TryLock(t.Context())
			require.ErrorIs(t, err, signalbox.ErrHeld)
		}
		require.Zero(t, proxy.Requests())
		return waiting
	}
	serve := func(waiting []<-chan locktest.Result[signalbox.Lease]) {
		for _, w := range waiting { // in the order in which they came
			require.NoError(t, locktest.MustHave(t, w).Unlock())
		}
	}
	lease := locktest.Must(t, mu.Lock)
	waiting := come()
	require.NoError(t, lease.Unlock())
	serve(waiting)

	lease = locktest.Must(t, elsewhere.Lock)
	first := locktest.Enqueue(t.Context(), t, server, "a", mu.Lock)
	waiting = append([]<-chan locktest.Result[signalbox.Lease]{first}, come()...)
	require.NoError(t, lease.Unlock())
	serve(waiting)
}

// P6: TryLock takes no lock that is free while a living waiter is in its queue, but hands it over to that.
func TestTryLockOvertakesNoWaiter(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, kind := range []locktest.Primitive{locktest.Reentrant(), locktest.Fair()} {
		name := kind.Name
		gone := locktest.Must(t, kind.New(locktest.SteadySession(t, server), name, signalbox.WithRenewedLease(longest)).Lock)
		waiting := locktest.Enqueue(t.Context(), t, server, name, kind.New(locktest.SteadySession(t, server), name).Lock)
		// The keys after a hold has ended by itself.
		server.MustDo(t, "SET", locktest.Key(name), holderValue(t, server, name)[:20]+strings.Repeat("-", 42)+"q", "PX", 600_000)
		_, err := kind.New(locktest.SteadySession(t, server), name).TryLock(t.Context())
		require.ErrorIs(t, err, signalbox.ErrHeld)
		got := locktest.MustHave(t, waiting)
		require.Greater(t, got.Token(), gone.Token())
		require.ErrorIs(t, gone.Unlock(), signalbox.ErrLost)
		require.NoError(t, got.Unlock())
	}
}
