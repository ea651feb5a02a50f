// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/multilock"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/rwlock"
	"github.com/signalbox-go/signalbox/scripts"
)

// P6: a waiter of another session recalls an idle lock, and has it a message and a hand-off later. The session makes no ticket.
func TestRecalledHoldIsLeftAndMakesNoTicket(t *testing.T) {
	t.Parallel()
	const latency = 10 * time.Millisecond
	bubble(t, func(f *fixture) {
		users, closeAll := f.queueUsers(f.T, 2, latency)
		defer closeAll()
		mu := f.kept(users[0].Session, "a")
		requeues := f.counts(scripts.LockRequeue)
		for _, other := range []locktest.Lock{
			reentrant.New(users[1].Session, "a"), fair.New(users[1].Session, "a"),
			reentrant.New(users[1].Session, "a", signalbox.WithKeepWarm(keptFor)),
		} {
			began := time.Now()
			lease := atOnce(f.T, other)
			require.Less(f, time.Since(began), 500*time.Millisecond, "before the next renewal")
			require.Zero(f, users[0].IdleLocks())
			require.NoError(f, lease.Unlock())
			time.Sleep(time.Second)
			waiting, _ := f.queued("a")
			require.Zero(f, waiting)
			for range 3 { // a lock with a mark is not kept
				require.NoError(f, atOnce(f.T, mu).Unlock())
				time.Sleep(100 * time.Millisecond)
			}
			require.Equal(f, 1, users[0].IdleLocks())
		}
		require.Zero(f, requeues.Load())
	})
}

// P6: while a session that keeps the lock uses it again and again, a waiter of another session has it after the running use, and so
// does a waiter if goroutines of that session wait, after its turn.
func TestRecalledHoldIsUsedNoMore(t *testing.T) {
	t.Parallel()
	const latency, use = time.Millisecond, 5 * time.Millisecond
	for _, goroutines := range []int{1, 4} {
		bubble(t, func(f *fixture) {
			users, closeAll := f.queueUsers(f.T, 2, latency)
			defer closeAll()
			mu := f.kept(users[0].Session, "a")
			ctx, cancel := context.WithCancel(f.Context())
			var all sync.WaitGroup
			for range goroutines {
				all.Go(func() {
					for ctx.Err() == nil {
						lease := atOnce(f.T, mu)
						time.Sleep(use)
						require.NoError(f, lease.Unlock())
					}
				})
			}
			for range 20 {
				time.Sleep(100 * time.Millisecond)
				began := time.Now()
				lease := atOnce(f.T, reentrant.New(users[1].Session, "a"))
				require.LessOrEqual(f, time.Since(began), longestTurn+use+16*latency)
				require.NoError(f, lease.Unlock())
			}
			cancel()
			all.Wait()
		})
	}
}

// P6: if the recall is lost, the next renewal finds the waiter.
func TestLostRecallCostsASecond(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		users, closeAll := f.queueUsers(f.T, 2, time.Millisecond)
		defer closeAll()
		f.kept(users[0].Session, "a")
		users[0].losesMessages.Store(true)
		began := time.Now()
		lease := atOnce(f.T, fair.New(users[1].Session, "a"))
		require.LessOrEqual(f, time.Since(began), 1100*time.Millisecond)
		require.NoError(f, lease.Unlock())
	})
}

// P6: a try elsewhere does not wait: it fails, and recalls the idle lock, so that a later one finds it free.
func TestTryElsewhereRecalls(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		users, closeAll := f.queueUsers(f.T, 2, time.Millisecond)
		defer closeAll()
		f.kept(users[0].Session, "a")
		other := reentrant.New(users[1].Session, "a")
		_, err := other.TryLock(f.Context())
		require.ErrorIs(f, err, signalbox.ErrHeld)
		time.Sleep(10 * time.Millisecond)
		lease, err := other.TryLock(f.Context())
		require.NoError(f, err)
		require.NoError(f, lease.Unlock())
	})
}

// P6: a session that asks for a kept lock in vain, again and again, has it soon and ever more often, although the lock is used and would be kept
// between any two of its calls: whatever it calls, and in whatever intervals.
func TestCallsInVainKeepTheLockFromBeingKept(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(f *fixture, s *signalbox.Session) (signalbox.Lease, error){
		"TryLock": func(f *fixture, s *signalbox.Session) (signalbox.Lease, error) {
			return reentrant.New(s, "a").TryLock(f.Context())
		},
		"Multilock": func(f *fixture, s *signalbox.Session) (signalbox.Lease, error) {
			return multilock.New(reentrant.New(s, "a"), reentrant.New(s, "b")).TryLock(f.Context())
		},
		"RWLock": func(f *fixture, s *signalbox.Session) (signalbox.Lease, error) {
			return rwlock.New(s, "a").Lock(f.Context())
		},
		"TryRLock": func(f *fixture, s *signalbox.Session) (signalbox.Lease, error) {
			return rwlock.New(s, "a").TryRLock(f.Context())
		},
	} {
		for _, interval := range []time.Duration{550 * time.Millisecond, 5 * time.Second, 4 * time.Minute} {
			t.Run(name+"/"+interval.String(), func(t *testing.T) {
				t.Parallel()
				bubble(t, func(f *fixture) {
					users, closeAll := f.queueUsers(f.T, 2, time.Millisecond)
					defer closeAll()
					mu := f.kept(users[0].Session, "a")
					ctx, cancel := context.WithCancel(f.Context())
					done := make(chan struct{})
					go func() {
						defer close(done)
						for ctx.Err() == nil {
							if lease, err := mu.Lock(ctx); err == nil {
								time.Sleep(time.Millisecond)
								_ = lease.Unlock()
							}
							time.Sleep(interval * 7 / 8) // it is used between any two calls
						}
					}()
					const calls = 20
					got := 0
					for range calls {
						if lease, err := call(f, users[1].Session); err == nil {
							got++
							require.NoError(f, lease.Unlock())
						}
						time.Sleep(interval)
					}
					cancel()
					<-done
					require.GreaterOrEqual(f, got, calls*6/10)
					time.Sleep(time.Hour)
					f.kept(users[0].Session, "a") // after quiet it is kept again
				})
			})
		}
	}
}

// P6: a session to which no messages arrive keeps nothing, and leaves what is idle when it loses its subscription.
func TestLostSubscriptionEndsIdleHolds(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		polling, _, closePolling := f.session(f.T, signalbox.WithPolling())
		defer closePolling()
		mu := reentrant.New(polling, "a", signalbox.WithKeepWarm(keptFor))
		for range 3 {
			lease := atOnce(f.T, mu)
			holder, err := mu.Holder(f.Context())
			require.NoError(f, err)
			require.False(f, holder.MayBeIdle)
			require.NoError(f, lease.Unlock())
			require.Zero(f, f.left("a"))
			time.Sleep(100 * time.Millisecond)
		}
		users, closeAll := f.queueUsers(f.T, 1, 0)
		defer closeAll()
		mu = f.kept(users[0].Session, "b")
		users[0].breakSubscriptions()
		synctest.Wait()
		require.Zero(f, users[0].IdleLocks())
		time.Sleep(10 * time.Millisecond)
		require.Zero(f, f.left("b"))
		time.Sleep(10 * time.Second)
		f.kept(users[0].Session, "b")
		require.NoError(f, atOnce(f.T, mu).Unlock())
	})
}

// P6: a process that dies while the lock is idle delays a waiter by its first lease, and a poll.
func TestIdleProcessThatDiesCostsTheFirstLease(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		users, closeAll := f.queueUsers(f.T, 2, time.Millisecond)
		defer closeAll()
		f.kept(users[0].Session, "a")
		time.Sleep(keptFor / 2) // it was renewed a few times
		users[0].goSilent()
		began := time.Now()
		lease := atOnce(f.T, reentrant.New(users[1].Session, "a"))
		require.LessOrEqual(f, time.Since(began), 4100*time.Millisecond)
		require.NoError(f, lease.Unlock())
		users[0].heal()
	})
}
