// SPDX-License-Identifier: Apache-2.0

package reentrant_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// A reentrant and a fair lock of one name are one lock.

// bothOrders is each of the two packages beside the other.
var bothOrders = [][2]locktest.Primitive{
	{locktest.Reentrant(), locktest.Fair()}, {locktest.Fair(), locktest.Reentrant()},
}

// P1, P3, P6: a holder of one keeps the other out, and hands over to its waiter, in one session and between two.
func TestReentrantAndFairHandOverToEachOther(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	one, other := locktest.SteadySession(t, server), locktest.SteadySession(t, server)
	holder := reentrant.New(locktest.SteadySession(t, server), "a")
	for _, next := range []*signalbox.Session{one, other} {
		for _, kinds := range bothOrders {
			lease := locktest.Must(t, kinds[0].New(one, "a").Lock)
			require.Equal(t, kinds[0].Name, requireHolder(t, holder).Kind)
			for _, kind := range kinds {
				_, err := kind.New(next, "a").TryLock(t.Context())
				require.ErrorIs(t, err, signalbox.ErrHeld)
			}
			waiting := locktest.Enqueue(t.Context(), t, server, "a", kinds[1].New(next, "a").Lock)
			require.NoError(t, lease.Unlock())
			got := locktest.MustHave(t, waiting)
			require.Greater(t, got.Token(), lease.Token())
			h := requireHolder(t, holder)
			require.Equal(t, kinds[1].Name, h.Kind)
			require.Equal(t, next.ID(), h.Session)
			require.NoError(t, got.Unlock())
		}
	}
	requireFree(t, holder)
}

// P1, P6: so do two processes.
func TestReentrantAndFairHandOverBetweenProcesses(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	process := redistest.Child(t, "holder", urlVariable+"="+server.URL())
	ordered := fair.New(locktest.SteadySession(t, server), "a")
	token := commandLock(t, process)
	waiting := locktest.Enqueue(t.Context(), t, server, "a", ordered.Lock)
	require.Equal(t, "<nil>", command(t, process, "unlock"))
	lease := locktest.MustHave(t, waiting)
	require.Greater(t, lease.Token(), token)
	process.Send("lock")
	redistest.Await(t, "a ticket of the process", func() bool { return locktest.Tickets(t, server, "a") == 1 })
	require.NoError(t, lease.Unlock())
	line, err := process.ReadLine(redistest.WaitLimit)
	require.NoError(t, err)
	require.Regexp(t, `^\d+ <nil>$`, line)
	require.Equal(t, "<nil>", command(t, process, "unlock"))
}

// P1, P3: goroutines of two sessions that use both do not overlap, and tokens rise from holder to holder.
func TestHoldersOfReentrantAndFairDoNotOverlap(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var inside sync.Mutex // locked by the holder
	var last uint64       // guarded by the lock under test
	var goroutines sync.WaitGroup
	for _, s := range []*signalbox.Session{locktest.SteadySession(t, server), locktest.SteadySession(t, server)} {
		for _, kind := range []locktest.Primitive{locktest.Reentrant(), locktest.Reentrant(), locktest.Fair(), locktest.Fair()} {
			mu := kind.New(s, "a")
			goroutines.Go(func() {
				for range 50 {
					err := mu.Do(t.Context(), func(_ context.Context, lease signalbox.Lease) error {
						if !inside.TryLock() {
							t.Error("two hold the lock")
							return nil
						}
						defer inside.Unlock()
						if lease.Token() <= last {
							t.Errorf("token %d after %d", lease.Token(), last)
						}
						last = lease.Token()
						return lease.Err()
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	goroutines.Wait()
	require.False(t, isHeld(t, server, "a"))
}

// P1, P7: the context of one enters the other, without a command, and the hold keeps its kind until its last lease ends.
func TestTheContextOfOneEntersTheOther(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := locktest.SteadySession(t, server, signalbox.WithPolling())
	for _, kinds := range bothOrders {
		mu, other := kinds[0].New(s, "a", signalbox.WithRenewedLease(longest)), kinds[1].New(s, "a")
		outer := locktest.Must(t, mu.Lock)
		var inner, tried signalbox.Lease
		require.Empty(t, server.SentBy(func() {
			var err error
			inner, err = other.Lock(outer.Enter(t.Context()))
			require.NoError(t, err)
			tried, err = other.TryLock(inner.Enter(t.Context()))
			require.NoError(t, err)
			require.NoError(t, outer.Unlock())
			require.NoError(t, tried.Unlock())
		}))
		require.Equal(t, outer.Token(), inner.Token())
		require.Equal(t, kinds[0].Name, requireHolder(t, reentrant.New(s, "a")).Kind)
		require.NoError(t, inner.Unlock())
		require.False(t, isHeld(t, server, "a"))
		_, err := other.Lock(outer.Enter(t.Context()))
		require.ErrorIs(t, err, signalbox.ErrReleased)
	}
}

// P1, P2: if the key is lost, and another goroutine of the session is granted the lock anew, the older hold has ended by
// then, whichever package each of them uses.
func TestANewerGrantEndsTheOlderHoldOfItsSession(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := locktest.SteadySession(t, server)
	for _, kinds := range append(bothOrders[:2:2], [2]locktest.Primitive{locktest.Fair(), locktest.Fair()}) {
		older := locktest.Must(t, kinds[0].New(s, "a", signalbox.WithRenewedLease(longest)).Lock)
		bound := older.Bind(t.Context())
		server.MustDo(t, "DEL", locktest.Key("a"))
		newer := locktest.Must(t, kinds[1].New(s, "a").Lock)
		require.Error(t, bound.Err())
		require.ErrorIs(t, older.Err(), signalbox.ErrLost)
		require.Greater(t, newer.Token(), older.Token())
		require.ErrorIs(t, older.Unlock(), signalbox.ErrLost)
		require.NoError(t, newer.Err())
		require.True(t, isHeld(t, server, "a"))
		require.NoError(t, newer.Unlock())
	}
}
