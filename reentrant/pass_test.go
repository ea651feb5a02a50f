// SPDX-License-Identifier: Apache-2.0

package reentrant_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// P3, P7: within a session the lock goes from goroutine to goroutine in the order of arrival,
// with tokens that rise, and without a round trip.
func TestTheLockIsPassedOnInOrderWithoutARoundTrip(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := reentrant.New(newSession(t, server), "a")
	require.NoError(t, mustLock(t, mu).Unlock()) // teaches the server the scripts

	// Passing costs nothing for 20 ms: a slow machine may need another try.
	var sent map[string]int64
	await(t, "a turn of everybody within 20 ms", func() bool {
		sent = sentBy(server, func() { passAround(t, mu, 4) })
		return sent["evalsha"] == 2 // the acquire and the release
	})
	require.Zero(t, sent["eval"])
}

// passAround lets goroutines queue for the lock and hand it on, and checks their order.
func passAround(t *testing.T, mu *reentrant.Lock, goroutines int) {
	t.Helper()
	first := mustLock(t, mu)
	last := first.Token()
	var waiting []<-chan outcome
	for range goroutines {
		waiting = append(waiting, queue(t.Context(), t, mu))
	}
	require.NoError(t, first.Unlock())
	for i, turn := range waiting {
		got := within(t, "the turn of the next", turn)
		require.NoError(t, got.err)
		require.Greater(t, got.lease.Token(), last)
		last = got.lease.Token()
		for _, later := range waiting[i+1:] {
			require.False(t, isClosed(later), "out of order")
		}
		require.NoError(t, got.lease.Unlock())
	}
}

// P2: what is bound to a lease has ended when the next holder enters.
func TestBoundContextsEndBeforeTheNextHolderEnters(t *testing.T) {
	t.Parallel()
	mu := reentrant.New(newSession(t, redistest.Start(t)), "a")
	lease := mustLock(t, mu)
	for range 50 {
		bound, entered, done := lease.Bind(t.Context()), lease.Enter(t.Context()), lease.Done()
		next := make(chan outcome, 1)
		waits := watched(t.Context())
		go func() {
			got, err := mu.Lock(waits)
			switch {
			case err != nil:
			case bound.Err() == nil, entered.Err() == nil, !isClosed(done), !isClosed(bound.Done()):
				err = errors.New("the last holder's context lives")
			case !errors.Is(context.Cause(bound), signalbox.ErrReleased):
				err = context.Cause(bound)
			}
			next <- outcome{got, err}
		}()
		within(t, "a place in the queue", waits.listened)
		old := lease
		require.NoError(t, old.Unlock())
		got := within(t, "the lock", next)
		require.NoError(t, got.err)
		require.ErrorIs(t, old.Err(), signalbox.ErrReleased)
		require.ErrorIs(t, old.Unlock(), signalbox.ErrNotHeld)
		_, err := mu.TryLock(entered)
		require.ErrorIs(t, err, signalbox.ErrReleased) // P8: the old context enters no new tenure
		lease = got.lease
	}
	require.NoError(t, lease.Unlock())
}

// P4, P6: a waiter that gives up in the instant of its turn hands the turn on.
func TestACancelledWaiterLosesNoTurn(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := reentrant.New(newSession(t, server), "a")
	for range 200 {
		lease := mustLock(t, mu)
		ctx, cancel := context.WithCancel(t.Context())
		hasty, patient := queue(ctx, t, mu), queue(t.Context(), t, mu)
		go cancel()
		require.NoError(t, lease.Unlock())
		if got := within(t, "the hasty one's answer", hasty); got.err == nil {
			require.NoError(t, got.lease.Unlock())
		} else {
			require.ErrorIs(t, got.err, context.Canceled)
		}
		got := within(t, "the turn of the patient one", patient)
		require.NoError(t, got.err)
		require.NoError(t, got.lease.Unlock())
	}
	require.False(t, isHeld(t, server, "a"))
}

// P6: a contender that gives up leaves its part to the next in the queue.
func TestACancelledContenderLeavesItsPartToTheNext(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	holder := mustLock(t, reentrant.New(newSession(t, server), "a"))
	mu := reentrant.New(newSession(t, server), "a", signalbox.RenewedLease(steady))
	ctx, cancel := context.WithCancel(t.Context())
	contender := contend(ctx, t, server, mu, "a")
	next := queue(t.Context(), t, mu)
	cancel()
	require.ErrorIs(t, within(t, "the contender's answer", contender).err, context.Canceled)
	require.NoError(t, holder.Unlock())
	got := within(t, "the lock", next)
	require.NoError(t, got.err)
	require.NoError(t, got.lease.Unlock())
}

// P6: at loss the next in the queue contends at the server.
func TestALostLockIsTakenAnewByTheNextInTheQueue(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server)
	lost := mustLock(t, reentrant.New(s, "a", signalbox.FixedLease(shortest)))
	got := within(t, "the lock", queue(t.Context(), t, reentrant.New(s, "a")))
	require.NoError(t, got.err)
	require.Greater(t, got.lease.Token(), lost.Token())
	require.ErrorIs(t, lost.Unlock(), signalbox.ErrLost)
	require.NoError(t, got.lease.Err())
	require.NoError(t, got.lease.Unlock())
}

// P2: a hold is passed on between leases of one length only: everybody gets the terms that they
// asked for.
func TestALockWithOtherTermsIsNotPassedOn(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server)
	for _, terms := range [][]signalbox.LockOption{
		{signalbox.FixedLease(time.Minute)},
		{signalbox.RenewedLease(time.Minute)},
		{signalbox.RenewedLease(time.Minute), signalbox.MaxHold(time.Minute)},
	} {
		lease := mustLock(t, reentrant.New(s, "a"))
		waiting := queue(t.Context(), t, reentrant.New(s, "a", terms...))
		require.NoError(t, lease.Unlock())
		got := within(t, "the lock", waiting)
		require.NoError(t, got.err)
		require.Greater(t, time.Until(got.lease.Deadline()), 31*time.Second)
		// And back: what was asked for with other terms is not passed on either.
		waiting = queue(t.Context(), t, reentrant.New(s, "a"))
		require.NoError(t, got.lease.Unlock())
		got = within(t, "the lock", waiting)
		require.NoError(t, got.err)
		require.Less(t, time.Until(got.lease.Deadline()), 31*time.Second)
		require.NoError(t, got.lease.Unlock())
	}
}

// P1, P3: however many goroutines of a session want the lock, they exclude each other, and a
// session elsewhere gets its turn among them.
func TestABusySessionLetsOthersHaveTheirTurn(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	busy := reentrant.New(newSession(t, server), "a")
	served := make(chan struct{})
	var goroutines sync.WaitGroup
	var last uint64 // guarded by the lock under test
	for range 16 {
		goroutines.Go(func() {
			for !isClosed(served) {
				lease, err := busy.Lock(t.Context())
				if err != nil || lease.Token() <= last {
					t.Error("not in order", err, lease.Token(), last)
					return
				}
				last = lease.Token()
				if err := lease.Unlock(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	other := reentrant.New(newSession(t, server), "a")
	for range 5 {
		lease := mustLock(t, other)
		if lease.Token() <= last {
			t.Error("not in order")
		}
		last = lease.Token()
		require.NoError(t, lease.Unlock())
	}
	close(served)
	goroutines.Wait()
}
