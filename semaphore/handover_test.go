// SPDX-License-Identifier: Apache-2.0

package semaphore_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/semaphore"
)

// Order, P1, P3: permits go from goroutine to goroutine of a session in the order of arrival, with tokens that rise. That
// they cost no round trip for 20 ms is shown in test/virtual.
func TestPermitsAreHandedOverInOrder(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	sem := semaphore.New(newSession(t, server), "a", 1)
	for range 5 {
		first := mustAcquire(t, sem, 1)
		waiting, last := crowd(t, server, sem, 4), first.Token()
		require.NoError(t, first.Unlock())
		for i, w := range waiting {
			lease := locktest.MustHave(t, w)
			require.Greater(t, lease.Token(), last)
			last = lease.Token()
			for _, later := range waiting[i+1:] {
				require.False(t, locktest.IsClosed(later), "out of order")
			}
			require.Equal(t, 1, heldPermits(t, server))
			require.NoError(t, lease.Unlock())
		}
	}
}

// P7: waiters of one session with the same request have one ticket.
func TestOneTicketForTheSameRequestOfASession(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server)
	sem := semaphore.New(s, "a", 3)
	held := mustAcquire(t, sem, 3)
	waiting := crowd(t, server, sem, 10)
	require.Equal(t, 1, tickets(t, server))
	here := locktest.Queue(t.Context(), t, acquireFunc(sem, 1))
	large := queue(t.Context(), t, server, sem, 2, 2)
	other := queue(t.Context(), t, server, semaphore.New(s, "a", 3, signalbox.WithRenewedLease(time.Minute)), 1, 3)
	_, err := sem.TryAcquire(t.Context(), 1)
	require.ErrorIs(t, err, signalbox.ErrHeld)
	require.NoError(t, held.Unlock())
	served := make(chan error, len(waiting)+3)
	for _, w := range append(waiting, here, large, other) {
		go func() {
			got := <-w
			if got.Err == nil {
				got.Err = got.Value.Unlock()
			}
			served <- got.Err
		}()
	}
	for range cap(served) {
		require.NoError(t, redistest.Receive(t, "the permits", served))
	}
}

// Order: a request for many permits is granted although permits are handed over all the time, in its own
// session or in another.
func TestLargeRequestIsNotStarvedByHandOvers(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server)
	small := semaphore.New(s, "a", 3)
	ctx, cancel := context.WithCancel(t.Context())
	var users sync.WaitGroup
	for range 12 {
		users.Go(func() {
			for ctx.Err() == nil {
				lease, err := small.Acquire(ctx, 1)
				if err == nil {
					err = locktest.IgnoreUnconfirmed(lease.Unlock())
				}
				if err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
		})
	}
	for _, large := range []*semaphore.Semaphore{small, semaphore.New(newSession(t, server), "a", 3)} {
		for range 5 {
			require.NoError(t, mustAcquire(t, large, 3).Unlock())
		}
	}
	cancel()
	users.Wait()
	awaitNothing(t, server)
}

// P2: a lease whose time counts from its beginning is not handed over, and has its full time.
func TestHoldWithAnEndIsNotHandedOver(t *testing.T) {
	t.Parallel()
	for name, option := range map[string]signalbox.LockOption{
		"FixedLease": signalbox.WithFixedLease(time.Minute), "MaxHold": signalbox.WithMaxHold(time.Minute),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			sem := semaphore.New(newSession(t, server), "a", 1, option)
			lease := mustAcquire(t, sem, 1)
			waiting := queue(t.Context(), t, server, sem, 1, 1)
			holds := server.MustDo(t, "ZRANGE", permitsKey, "1000000000000000", "+inf", "BYSCORE")
			require.NoError(t, lease.Unlock())
			next := locktest.MustHave(t, waiting)
			require.NotEqual(t, holds, server.MustDo(t, "ZRANGE", permitsKey, "1000000000000000", "+inf", "BYSCORE"))
			require.NoError(t, next.Unlock())
		})
	}
}

// P2: what is bound to a lease has ended when the next has the permits.
func TestBoundContextsEndBeforeTheNextHasThePermits(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	sem := semaphore.New(newSession(t, server), "a", 1)
	lease := mustAcquire(t, sem, 1)
	waiting := queueFirst(t.Context(), t, server, sem)
	for range 20 {
		bound, done := lease.Bind(t.Context()), lease.Done()
		next := locktest.Queue(t.Context(), t, func(ctx context.Context) (signalbox.Lease, error) {
			got, err := sem.Acquire(ctx, 1)
			if err == nil && (bound.Err() == nil || !locktest.IsClosed(done)) {
				err = errors.New("a context that is bound to the last lease has not ended")
			}
			return got, err
		})
		require.NoError(t, lease.Unlock())
		require.ErrorIs(t, lease.Err(), signalbox.ErrReleased)
		require.ErrorIs(t, lease.Unlock(), signalbox.ErrNotHeld)
		require.ErrorIs(t, context.Cause(bound), signalbox.ErrReleased)
		require.NoError(t, locktest.MustHave(t, waiting).Unlock())
		lease = locktest.MustHave(t, next)
		waiting = queueFirst(t.Context(), t, server, sem)
	}
	require.NoError(t, lease.Unlock())
	require.NoError(t, locktest.MustHave(t, waiting).Unlock())
}

// P4, P6: a waiter that gives up in the instant in which permits are handed to it has them, or they go to the
// next one.
func TestCancelDuringHandOverLosesNoPermits(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	sem := semaphore.New(newSession(t, server), "a", 1)
	for n := range 60 {
		lease := mustAcquire(t, sem, 1)
		ctx, cancel := context.WithCancel(t.Context())
		var hasty, patient pendingAcquire
		if n%2 == 0 {
			hasty, patient = queueFirst(ctx, t, server, sem), locktest.Queue(t.Context(), t, acquireFunc(sem, 1))
		} else {
			patient, hasty = queueFirst(t.Context(), t, server, sem), locktest.Queue(ctx, t, acquireFunc(sem, 1))
		}
		go cancel()
		require.NoError(t, lease.Unlock())
		late := time.NewTimer(redistest.Patience)
		for range 2 {
			select {
			case got := <-hasty:
				if got.Err == nil {
					require.NoError(t, got.Value.Unlock())
				} else {
					require.ErrorIs(t, got.Err, context.Canceled)
				}
			case got := <-patient:
				require.NoError(t, got.Err)
				require.NoError(t, got.Value.Unlock())
			case <-late.C:
				t.Fatal("a waiter was not granted the permit")
			}
		}
		late.Stop()
	}
	awaitNothing(t, server)
	require.Equal(t, 1, available(t, sem))
}
