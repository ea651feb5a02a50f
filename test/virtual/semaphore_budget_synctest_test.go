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
	bubbleOfUsers(t, func(f *fixture) {
		sem, requested := semaphore.New(f.user().Session, "a", 1), f.counts(scripts.SemaphoreYield)
		lease := mustAcquire(f, sem, 1)
		var waiting []<-chan locktest.Result[signalbox.Lease]
		for range 6 {
			waiting = append(waiting, acquiring(f.Context(), sem, 1))
		}
		for i, next := range waiting {
			ends := f.firstEnd("a")
			time.Sleep(2 * budget)
			require.NoError(f, lease.Unlock())
			got := locktest.MustHave(f, next)
			require.Greater(f, got.Token(), lease.Token())
			require.True(f, f.firstEnd("a").After(ends), "it was not lengthened")
			require.Greater(f, requested.Load(), int64(i))
			lease = got
		}
		require.NoError(f, lease.Unlock())
		time.Sleep(time.Second)
		require.Zero(f, f.permitsHeld("a"))
		require.Zero(f, f.permitsWaited("a"))
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
			bubbleOfUsers(t, func(f *fixture) {
				s := f.user()
				sem := semaphore.New(s.Session, "a", 1)
				lease := mustAcquire(f, sem, 1)
				other := acquiring(f.Context(), semaphore.New(s.Session, "a", 1, terms), 1)
				here := acquiring(f.Context(), sem, 1)
				require.NoError(f, lease.Unlock()) // long after the budget
				next := locktest.MustHave(f, other)
				require.Empty(f, here)
				require.NoError(f, next.Unlock())
				require.NoError(f, locktest.MustHave(f, here).Unlock())
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
			bubbleOfUsers(t, func(f *fixture) {
				sem := semaphore.New(f.user().Session, "a", 1)
				lease := mustAcquire(f, sem, 1)
				waiting := []<-chan locktest.Result[signalbox.Lease]{acquiring(f.Context(), sem, 1), acquiring(f.Context(), sem, 1)}
				f.redis.Del(locktest.Keys("a").Permits())
				losses(lease)
				require.ErrorIs(f, lease.Unlock(), signalbox.ErrLost)
				for _, next := range waiting {
					require.NoError(f, locktest.MustHave(f, next).Unlock())
				}
			})
		})
	}
}

// P1: if the capacity is lower by now, permits above it are handed over for no longer than the budget.
func TestPermitsAboveTheCapacityAreNotHandedOver(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		sem := semaphore.New(f.user().Session, "a", 2)
		one, two := mustAcquire(f, sem, 1), mustAcquire(f, sem, 1)
		waiting := []<-chan locktest.Result[signalbox.Lease]{acquiring(f.Context(), sem, 1), acquiring(f.Context(), sem, 1)}
		require.NoError(f, sem.SetCapacity(f.Context(), 1))
		require.NoError(f, one.Unlock()) // long after the budget
		time.Sleep(time.Second)
		require.Equal(f, 1, f.permitsHeld("a"))
		require.Empty(f, waiting[0])
		require.Empty(f, waiting[1])
		require.NoError(f, two.Unlock())
		for _, next := range waiting {
			require.NoError(f, locktest.MustHave(f, next).Unlock())
		}
	})
}

// T1, P7: two goroutines of each process that want one permit in turn hand it over inside, and ask the server a few times
// in each budget.
func TestTwoGoroutinesOfAProcessSendLittle(t *testing.T) {
	t.Parallel()
	const clients, uses, section = 2, 100, time.Millisecond
	bubbleOfUsers(t, func(f *fixture) {
		requested := f.counts(scripts.SemaphoreEnter)
		var all sync.WaitGroup
		for range clients {
			sem := semaphore.New(f.user().Session, "a", 1)
			for range 2 {
				all.Go(func() {
					for range uses {
						lease := mustAcquire(f, sem, 1)
						time.Sleep(section)
						if err := lease.Unlock(); err != nil {
							f.Error(err)
						}
					}
				})
			}
		}
		all.Wait()
		const budgets = clients * 2 * uses * section / budget
		require.Less(f, requested.Load(), int64(3*budgets))
		synctest.Wait() // a permit that was granted to a goroutine that meanwhile had one here goes back
		require.Zero(f, f.permitsHeld("a"))
	})
}
