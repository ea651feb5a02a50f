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
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// P2: what is bound to a lease has ended when the next holder enters.
func TestBoundContextsEndBeforeTheNextHolderEnters(t *testing.T) {
	t.Parallel()
	mu := reentrant.New(locktest.SteadySession(t, redistest.Start(t)), "a")
	lease := locktest.Must(t, mu.Lock)
	for range 50 {
		bound, entered, done := lease.Bind(t.Context()), lease.Enter(t.Context()), lease.Done()
		next := make(chan locktest.Result[signalbox.Lease], 1)
		waits := locktest.Watch(t.Context())
		go func() {
			got, err := mu.Lock(waits)
			switch {
			case err != nil:
			case bound.Err() == nil, entered.Err() == nil, !locktest.IsClosed(done), !locktest.IsClosed(bound.Done()):
				err = errors.New("the last holder's context lives")
			case !errors.Is(context.Cause(bound), signalbox.ErrReleased):
				err = context.Cause(bound)
			}
			next <- locktest.Result[signalbox.Lease]{Value: got, Err: err}
		}()
		redistest.Receive(t, "a ticket in the queue", waits.Waiting)
		old := lease
		require.NoError(t, old.Unlock())
		got := locktest.MustHave(t, next)
		require.ErrorIs(t, old.Err(), signalbox.ErrReleased)
		require.ErrorIs(t, old.Unlock(), signalbox.ErrNotHeld)
		_, err := mu.TryLock(entered)
		require.ErrorIs(t, err, signalbox.ErrReleased) // P8: the old context enters no later hold
		lease = got
	}
	require.NoError(t, lease.Unlock())
}

// P4, P6: a waiter that gives up in the instant of its turn hands the turn on.
func TestACancelledWaiterLosesNoTurn(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := reentrant.New(locktest.SteadySession(t, server), "a")
	for range 50 {
		lease := locktest.Must(t, mu.Lock)
		ctx, cancel := context.WithCancel(t.Context())
		hasty, patient := locktest.Queue(ctx, t, mu.Lock), locktest.Queue(t.Context(), t, mu.Lock)
		go cancel()
		require.NoError(t, lease.Unlock())
		if got := redistest.Receive(t, "the result of the hasty call", hasty); got.Err == nil {
			require.NoError(t, got.Value.Unlock())
		} else {
			require.ErrorIs(t, got.Err, context.Canceled)
		}
		got := locktest.MustHave(t, patient)
		require.NoError(t, got.Unlock())
	}
	require.False(t, isHeld(t, server, "a"))
}

// P6: a waiter that gives up leaves its ticket to the next one in its process.
func TestACancelledWaiterLeavesItsTicketToTheNext(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	holder := locktest.Must(t, reentrant.New(locktest.SteadySession(t, server), "a").Lock)
	mu := reentrant.New(locktest.SteadySession(t, server), "a")
	ctx, cancel := context.WithCancel(t.Context())
	cancelled := locktest.Enqueue(ctx, t, server, "a", mu.Lock)
	next := locktest.Queue(t.Context(), t, mu.Lock)
	cancel()
	require.ErrorIs(t, redistest.Receive(t, "the result of the cancelled waiter", cancelled).Err, context.Canceled)
	require.NoError(t, holder.Unlock())
	got := locktest.MustHave(t, next)
	require.NoError(t, got.Unlock())
}

// P2: a hold is handed over inside the process between leases of the same terms only, and never if its time counts from
// the grant. Every other waiter has a ticket of its own, and its hold is new at the server: its token is the first one.
func TestALockWithOtherTermsIsNotHandedOver(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := locktest.SteadySession(t, server)
	var plain []signalbox.LockOption
	renewed := []signalbox.LockOption{signalbox.WithRenewedLease(time.Minute)}
	fixed := []signalbox.LockOption{signalbox.WithFixedLease(time.Minute)}
	bounded := []signalbox.LockOption{signalbox.WithMaxHold(time.Minute)}
	for _, terms := range [][2][]signalbox.LockOption{
		{plain, renewed}, {renewed, plain}, {plain, fixed}, {fixed, plain}, {fixed, fixed}, {plain, bounded}, {bounded, bounded},
	} {
		lease := locktest.Must(t, reentrant.New(s, "a", terms[0]...).Lock)
		for _, next := range [][]signalbox.LockOption{terms[1], terms[0]} {
			waiting := locktest.Enqueue(t.Context(), t, server, "a", reentrant.New(s, "a", next...).Lock)
			require.NoError(t, lease.Unlock())
			lease = locktest.MustHave(t, waiting)
			require.Equal(t, lease.Token(), requireHolder(t, reentrant.New(s, "a")).Token)
		}
		require.NoError(t, lease.Unlock())
	}
}

// P1, P3: however many goroutines of a session want the lock, they exclude each other, and a
// session elsewhere gets its turn among them.
func TestABusySessionLetsOthersHaveTheirTurn(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	busy := reentrant.New(locktest.SteadySession(t, server), "a")
	served := make(chan struct{})
	var goroutines sync.WaitGroup
	var last uint64 // guarded by the lock under test
	for range 16 {
		goroutines.Go(func() {
			for !locktest.IsClosed(served) {
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
	other := reentrant.New(locktest.SteadySession(t, server), "a")
	for range 5 {
		lease := locktest.Must(t, other.Lock)
		if lease.Token() <= last {
			t.Error("not in order")
		}
		last = lease.Token()
		require.NoError(t, lease.Unlock())
	}
	close(served)
	goroutines.Wait()
}
