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
	"github.com/signalbox-go/signalbox/reentrant"
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
