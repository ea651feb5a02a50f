// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/scripts"
	"github.com/signalbox-go/signalbox/semaphore"
)

// P2, P3: when the budget is used up the server is asked. It extends the hold and grants a greater token if
// there is no other waiter.
func TestServerIsAskedWhenTheBudgetIsUsedUp(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		sem, requested := semaphore.New(w.user().Session, "a", 1), w.counts(scripts.SemaphoreYield)
		lease := mustAcquire(w, sem, 1)
		var waiting []<-chan locktest.Result[signalbox.Lease]
		for range 6 {
			waiting = append(waiting, acquiring(w.Context(), sem, 1))
		}
		for i, next := range waiting {
			ends := w.firstEnd("a")
			time.Sleep(2 * budget)
			require.NoError(w, lease.Unlock())
			got := locktest.MustHave(w, next)
			require.Greater(w, got.Token(), lease.Token())
			require.True(w, w.firstEnd("a").After(ends), "it was not lengthened")
			require.Greater(w, requested.Load(), int64(i))
			lease = got
		}
		require.NoError(w, lease.Unlock())
		time.Sleep(time.Second)
		require.Zero(w, w.permitsHeld("a"))
		require.Zero(w, w.permitsWaited("a"))
	})
}

// P6: a waiter by other terms is not kept out by those that pass permits on.
func TestWaiterByOtherTermsIsServed(t *testing.T) {
	t.Parallel()
	for name, terms := range map[string]signalbox.LockOption{
		"Renewed": signalbox.WithRenewedLease(time.Minute), "Fixed": signalbox.WithFixedLease(30 * time.Second),
		"MaxHold": signalbox.WithMaxHold(time.Minute), "Exact": semaphore.ExactCapacity(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubbleOfUsers(t, func(w *fixture) {
				s := w.user()
				sem := semaphore.New(s.Session, "a", 1)
				lease := mustAcquire(w, sem, 1)
				other := acquiring(w.Context(), semaphore.New(s.Session, "a", 1, terms), 1)
				here := acquiring(w.Context(), sem, 1)
				require.NoError(w, lease.Unlock()) // long after the budget
				next := locktest.MustHave(w, other)
				require.Empty(w, here)
				require.NoError(w, next.Unlock())
				require.NoError(w, locktest.MustHave(w, here).Unlock())
			})
		})
	}
}

// P2, P6: permits that were lost while others waited for them are reported, also by the request that asks
// whether they may be handed over, and the others are served.
func TestLostPermitsAreNotHandedOver(t *testing.T) {
	t.Parallel()
	for name, losses := range map[string]func(signalbox.Lease){
		"Release": func(signalbox.Lease) {}, "Renewal": func(lease signalbox.Lease) { <-lease.Done() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubbleOfUsers(t, func(w *fixture) {
				sem := semaphore.New(w.user().Session, "a", 1)
				lease := mustAcquire(w, sem, 1)
				waiting := []<-chan locktest.Result[signalbox.Lease]{acquiring(w.Context(), sem, 1), acquiring(w.Context(), sem, 1)}
				w.redis.Del(locktest.Keys("a").Permits())
				losses(lease)
				require.ErrorIs(w, lease.Unlock(), signalbox.ErrLost)
				for _, next := range waiting {
					require.NoError(w, locktest.MustHave(w, next).Unlock())
				}
			})
		})
	}
}

// P1: if the capacity is lower by now, permits above it are handed over for no longer than the budget.
func TestPermitsAboveTheCapacityAreNotHandedOver(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		sem := semaphore.New(w.user().Session, "a", 2)
		one, two := mustAcquire(w, sem, 1), mustAcquire(w, sem, 1)
		waiting := []<-chan locktest.Result[signalbox.Lease]{acquiring(w.Context(), sem, 1), acquiring(w.Context(), sem, 1)}
		require.NoError(w, sem.SetCapacity(w.Context(), 1))
		require.NoError(w, one.Unlock()) // long after the budget
		time.Sleep(time.Second)
		require.Equal(w, 1, w.permitsHeld("a"))
		require.Empty(w, waiting[0])
		require.Empty(w, waiting[1])
		require.NoError(w, two.Unlock())
		for _, next := range waiting {
			require.NoError(w, locktest.MustHave(w, next).Unlock())
		}
	})
}

// T1, P7: two goroutines of each process that want one permit in turn hand it over inside, and ask the server a few times
// in each budget.
func TestTwoGoroutinesOfAProcessSendLittle(t *testing.T) {
	t.Parallel()
	const clients, uses, section = 2, 100, time.Millisecond
	bubbleOfUsers(t, func(w *fixture) {
		requested := w.counts(scripts.SemaphoreEnter)
		var all sync.WaitGroup
		for range clients {
			sem := semaphore.New(w.user().Session, "a", 1)
			for range 2 {
				all.Go(func() {
					for range uses {
						lease := mustAcquire(w, sem, 1)
						time.Sleep(section)
						if err := lease.Unlock(); err != nil {
							w.Error(err)
						}
					}
				})
			}
		}
		all.Wait()
		const budgets = clients * 2 * uses * section / budget
		require.Less(w, requested.Load(), int64(3*budgets))
		synctest.Wait() // a permit that was granted to a goroutine that meanwhile had one here goes back
		require.Zero(w, w.permitsHeld("a"))
	})
}
