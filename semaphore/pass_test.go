// SPDX-License-Identifier: Apache-2.0

package semaphore_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/scripts"
	"github.com/signalbox-go/signalbox/semaphore"
)

// budget is for how long permits are passed on before the server is asked.
const budget = 20 * time.Millisecond

// Order, P1, P3: permits go from goroutine to goroutine of a session in the order of arrival, with tokens that rise. That
// they cost no round trip for 20 ms is shown in test/virtual.
func TestPermitsArePassedOnInOrder(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	sem := semaphore.New(newSession(t, server), "a", 1)
	for range 5 {
		first := mustAcquire(t, sem, 1)
		waiting, last := crowd(t, server, sem, 4), first.Token()
		require.NoError(t, first.Unlock())
		for i, w := range waiting {
			lease := mustHave(t, w)
			require.Greater(t, lease.Token(), last)
			last = lease.Token()
			for _, later := range waiting[i+1:] {
				require.False(t, isClosed(later), "out of order")
			}
			require.Equal(t, 1, out(t, server))
			require.NoError(t, lease.Unlock())
		}
	}
}

// P7: of those who wait for the like in one session one stands in line.
func TestOneStandsInLineForAllOfItsSession(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server)
	sem := semaphore.New(s, "a", 3)
	held := mustAcquire(t, sem, 3)
	waiting := crowd(t, server, sem, 10)
	require.Equal(t, 1, inLine(t, server))
	here := queueHere(t.Context(), t, sem, 1)
	large := queue(t.Context(), t, server, sem, 2, 2)
	other := queue(t.Context(), t, server, semaphore.New(s, "a", 3, signalbox.RenewedLease(time.Minute)), 1, 3)
	_, err := sem.TryAcquire(t.Context(), 1)
	require.ErrorIs(t, err, signalbox.ErrHeld)
	require.NoError(t, held.Unlock())
	inAnyOrder(t, 3, append(waiting, here, large, other))
}

// P2, P6: when the budget is used up the server is asked, which lengthens the hold and grants new tokens where nobody
// else stands in line.
func TestTheServerIsAskedWhenTheBudgetIsUsedUp(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	sem := semaphore.New(newSession(t, proxy), "a", 1)
	lease := mustAcquire(t, sem, 1)
	waiting := crowd(t, server, sem, 6)
	requests(proxy, scripts.SemaphoreYield)
	asked := proxy.Requests()
	holds := func() any { return server.MustDo(t, "ZRANGE", permitsKey, "1000000000000000", "+inf", "BYSCORE") }
	before := holds()
	for i, w := range waiting {
		deadline := deadlineOf(lease)
		holdFor(2 * budget)
		require.NoError(t, lease.Unlock())
		next := mustHave(t, w)
		require.Greater(t, next.Token(), lease.Token())
		require.True(t, next.Deadline().After(deadline), "it was not lengthened")
		lease = next
		if i == len(waiting)-2 { // the last has taken over the place in line, which may take it a while
			require.Equal(t, before, holds(), "it is another hold")
		}
	}
	require.GreaterOrEqual(t, proxy.Requests()-asked, len(waiting)-1)
	require.NoError(t, lease.Unlock())
	await(t, "nothing is left", func() bool { return out(t, server) == 0 && inLine(t, server) == 0 })
}

// Order: when the budget is used up permits go to who stands in line before, of whatever session.
func TestPermitsGoByTheLineWhenTheBudgetIsUsedUp(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	sem, there := semaphore.New(newSession(t, server), "a", 1), semaphore.New(newSession(t, server), "a", 1)
	lease := mustAcquire(t, sem, 1)
	other := queue(t.Context(), t, server, there, 1, 1)
	here := queue(t.Context(), t, server, sem, 1, 2)
	await(t, "that it knows of its place", sem.Waits)
	also := queueHere(t.Context(), t, sem, 1)
	holdFor(2 * budget)
	require.NoError(t, lease.Unlock())
	others := mustHave(t, other)
	require.Greater(t, others.Token(), lease.Token())
	require.False(t, isClosed(here) || isClosed(also))
	require.NoError(t, others.Unlock())
	next := mustHave(t, here)
	require.Greater(t, next.Token(), others.Token())
	require.NoError(t, next.Unlock())
	require.NoError(t, mustHave(t, also).Unlock())
	require.Zero(t, sem.Relays())
}

// Order: a wish for many is granted though permits are passed on all the time beside it, in its own session or in
// another.
func TestALargeWishIsGrantedThoughSmallOnesArePassedOn(t *testing.T) {
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
					err = givesBack(lease)
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
	await(t, "nothing is left", func() bool { return out(t, server) == 0 && inLine(t, server) == 0 })
}

// Order: who waits by other terms is not kept out by those who pass permits on.
func TestWhoWaitsByOtherTermsIsNotKeptOut(t *testing.T) {
	t.Parallel()
	for name, terms := range map[string][]signalbox.LockOption{
		"Renewed": {signalbox.RenewedLease(time.Minute)}, "Fixed": {signalbox.FixedLease(30 * time.Second)},
		"MaxHold": {signalbox.MaxHold(time.Minute)}, "Exact": {semaphore.ExactCapacity()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			s := newSession(t, server)
			sem := semaphore.New(s, "a", 1)
			lease := mustAcquire(t, sem, 1)
			other := queue(t.Context(), t, server, semaphore.New(s, "a", 1, terms...), 1, 1)
			here := queue(t.Context(), t, server, sem, 1, 2)
			holdFor(2 * budget)
			require.NoError(t, lease.Unlock())
			require.NoError(t, mustHave(t, other).Unlock())
			require.NoError(t, mustHave(t, here).Unlock())
		})
	}
}

// P2: a lease whose time counts from its beginning is nobody else's, and has all of it.
func TestAHoldWithAnEndIsNotPassedOn(t *testing.T) {
	t.Parallel()
	for name, option := range map[string]signalbox.LockOption{
		"FixedLease": signalbox.FixedLease(time.Minute), "MaxHold": signalbox.MaxHold(time.Minute),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			sem := semaphore.New(newSession(t, server), "a", 1, option)
			lease := mustAcquire(t, sem, 1)
			waiting := queue(t.Context(), t, server, sem, 1, 1)
			holds := server.MustDo(t, "ZRANGE", permitsKey, "1000000000000000", "+inf", "BYSCORE")
			require.NoError(t, lease.Unlock())
			next := mustHave(t, waiting)
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
	standing := stand(t.Context(), t, server, sem)
	for range 50 {
		bound, done := lease.Bind(t.Context()), lease.Done()
		next := make(chan outcome, 1)
		waits := &watchedContext{Context: t.Context(), listened: make(chan struct{})}
		go func() {
			got, err := sem.Acquire(waits, 1)
			if err == nil && (bound.Err() == nil || !isClosed(done)) {
				err = errors.New("what is bound to the last lease lives")
			}
			next <- outcome{got, err}
		}()
		within(t, "a place in the queue", waits.listened)
		require.NoError(t, lease.Unlock())
		require.ErrorIs(t, lease.Err(), signalbox.ErrReleased)
		require.ErrorIs(t, lease.Unlock(), signalbox.ErrNotHeld)
		require.ErrorIs(t, context.Cause(bound), signalbox.ErrReleased)
		require.NoError(t, mustHave(t, standing).Unlock())
		lease = mustHave(t, next)
		standing = stand(t.Context(), t, server, sem)
	}
	require.NoError(t, lease.Unlock())
	require.NoError(t, mustHave(t, standing).Unlock())
}

// P4, P6: who gives up in the instant in which permits are passed to it has them, or they go on.
func TestWhoGivesUpAsItIsPassedPermitsLosesNone(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	sem := semaphore.New(newSession(t, server), "a", 1)
	for n := range 200 {
		lease := mustAcquire(t, sem, 1)
		ctx, cancel := context.WithCancel(t.Context())
		var hasty, patient <-chan outcome
		if n%2 == 0 {
			hasty, patient = stand(ctx, t, server, sem), queueHere(t.Context(), t, sem, 1)
		} else {
			patient, hasty = stand(t.Context(), t, server, sem), queueHere(ctx, t, sem, 1)
		}
		go cancel()
		require.NoError(t, lease.Unlock())
		late := time.NewTimer(patience)
		for range 2 {
			select {
			case got := <-hasty:
				if got.err == nil {
					require.NoError(t, got.lease.Unlock())
				} else {
					require.ErrorIs(t, got.err, context.Canceled)
				}
			case got := <-patient:
				require.NoError(t, got.err)
				require.NoError(t, got.lease.Unlock())
			case <-late.C:
				t.Fatal("somebody waits in vain")
			}
		}
		late.Stop()
	}
	await(t, "nothing is left", func() bool { return out(t, server) == 0 && inLine(t, server) == 0 })
	require.Equal(t, 1, available(t, sem))
}

// P5: whatever becomes of the question, the permits come back or go on, and count once.
func TestAQuestionOfUnknownOutcomeLosesNoPermits(t *testing.T) {
	t.Parallel()
	for _, kind := range []redistest.Kind{redistest.CutAfterRequest, redistest.CutBeforeRequest, redistest.CutAfterReply, redistest.SwallowReply} {
		for name, others := range map[string]int{"Alone": 0, "Others": 1} {
			t.Run(kind.String()+name, func(t *testing.T) {
				t.Parallel()
				server := redistest.Start(t)
				proxy := redistest.NewProxy(t, server.Addr())
				sem := semaphore.New(newSession(t, proxy), "a", 1)
				lease := mustAcquire(t, sem, 1)
				waiting := crowd(t, server, sem, 2)
				for range others {
					waiting = append(waiting, queue(t.Context(), t, server, semaphore.New(newSession(t, server), "a", 1), 1, 2))
				}
				holdFor(2 * budget)
				requests(proxy, scripts.SemaphoreYield)
				proxy.ResetCount()
				struck := proxy.Arm(redistest.Fault{Kind: kind})
				require.NoError(t, givesBack(lease))
				within(t, "the fault", struck.Fired())
				proxy.Disarm()
				for _, next := range inAnyOrder(t, 1, waiting) {
					require.Greater(t, next, lease.Token())
				}
				await(t, "nothing is left", func() bool { return out(t, server) == 0 && inLine(t, server) == 0 })
			})
		}
	}
}

// P2, P6: permits that were lost while others waited for them are told, by the question too, and the others are served.
func TestPermitsThatWereLostAreNotPassedOn(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	sem := semaphore.New(newSession(t, server), "a", 1)
	lease := mustAcquire(t, sem, 1)
	waiting := crowd(t, server, sem, 3)
	server.MustDo(t, "DEL", permitsKey, lineKey, livesKey)
	holdFor(2 * budget)
	require.ErrorIs(t, lease.Unlock(), signalbox.ErrLost)
	inAnyOrder(t, 1, waiting)
	short := semaphore.New(newSession(t, server), "a", 1, signalbox.RenewedLease(steady))
	lease = mustAcquire(t, short, 1)
	waiting = crowd(t, server, short, 3)
	server.MustDo(t, "DEL", permitsKey)
	within(t, "the end of the lease", lease.Done())
	require.ErrorIs(t, lease.Unlock(), signalbox.ErrLost)
	inAnyOrder(t, 1, waiting)
}

// H12: where there are fewer by now permits are passed on for no longer than the budget.
func TestPermitsAreNotPassedOnForLongWhereThereAreFewer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	sem := semaphore.New(newSession(t, server), "a", 2)
	one, two := mustAcquire(t, sem, 1), mustAcquire(t, sem, 1)
	waiting := crowd(t, server, sem, 2)
	require.NoError(t, sem.SetCapacity(t.Context(), 1))
	holdFor(2 * budget)
	require.NoError(t, one.Unlock())
	require.Equal(t, 1, out(t, server))
	require.False(t, isClosed(waiting[0]) || isClosed(waiting[1]))
	require.NoError(t, two.Unlock())
	inAnyOrder(t, 1, waiting)
}

// P4, P6: Close while permits are passed on sends all who wait away, and leaves nothing.
func TestCloseWhilePermitsArePassedOnLeavesNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for round := range 10 {
		s := newSession(t, server, signalbox.WithDefaults(signalbox.RenewedLease(steady)))
		sem := semaphore.New(s, "a", 2)
		var users sync.WaitGroup
		var served atomic.Int64
		for range 12 {
			users.Go(func() {
				for {
					lease, err := sem.Acquire(t.Context(), 1)
					if errors.Is(err, signalbox.ErrClosed) {
						return
					}
					if err == nil {
						served.Add(1)
						err = givesBack(lease)
					}
					if err != nil && !errors.Is(err, signalbox.ErrLost) {
						t.Error(err)
						return
					}
				}
			})
		}
		await(t, "some use", func() bool { return served.Load() > rand.Int64N(5000) })
		closesClean(t, server, s, round%2 == 0)
		users.Wait()
	}
}
