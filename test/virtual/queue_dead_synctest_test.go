// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// P6: a crashed holder's lock goes to the head of the queue when its hold ends.
func TestACrashedHoldersFairLockIsGrantedAsItsHoldEnds(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		t := f.T
		for n := range 20 {
			name := fmt.Sprint("crash/", n)
			users, closeAll := f.queueUsers(t, 3, 0)
			lease := atOnce(t, fair.New(users[0].Session, name, signalbox.WithRenewedLease(10*time.Second)))
			time.Sleep(time.Duration(n) * 777 * time.Millisecond)
			first := queuedAndListening(t.Context(), fair.New(users[1].Session, name))
			second := queuedAndListening(t.Context(), fair.New(users[2].Session, name))
			users[0].goSilent()
			until := time.Now().Add(f.left(name))
			got := <-first
			require.NoError(t, got.err)
			require.WithinRange(t, got.at, until, until.Add(5*time.Millisecond))
			require.ErrorIs(t, lease.Err(), signalbox.ErrLost)
			require.NoError(t, got.lease.Unlock())
			got = <-second
			require.NoError(t, got.err)
			require.NoError(t, got.lease.Unlock())
			closeAll()
		}
	})
}

// P6: waiters that died, however many, delay the others by no more than the time for which they count as
// living, and a poll.
func TestDeadWaitersDelayOthersByOneLife(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		t := f.T
		for _, at := range []time.Duration{0, time.Second, 2900 * time.Millisecond, 4 * time.Second} {
			name := fmt.Sprint("dead/", at)
			users, closeAll := f.queueUsers(t, 3, time.Millisecond)
			lease := atOnce(t, fair.New(users[0].Session, name))
			ctx, cancel := context.WithCancel(t.Context())
			var dying sync.WaitGroup
			for range 300 {
				dying.Go(func() { _, _ = fair.New(users[1].Session, name).Lock(ctx) })
			}
			time.Sleep(time.Second)
			next := queuedAndListening(t.Context(), fair.New(users[2].Session, name))
			users[1].goSilent()
			time.Sleep(at)
			released := time.Now()
			require.NoError(t, lease.Unlock())
			got := <-next
			require.NoError(t, got.err)
			require.Less(t, got.at.Sub(released), max(3*time.Second-at, 0)+1100*time.Millisecond)
			require.NoError(t, got.lease.Unlock())
			cancel()
			dying.Wait()
			closeAll()
		}
	})
}

// Order: a session that is cut off for less than ten seconds and a life keeps its ticket. One that is cut
// off for longer queues at the end. Both get the lock.
func TestASessionThatWasCutOffGetsTheLock(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		t := f.T
		for off, keeps := range map[time.Duration]bool{2 * time.Second: true, 8 * time.Second: true, 30 * time.Second: false} {
			name := fmt.Sprint("off/", off)
			users, closeAll := f.queueUsers(t, 4, time.Millisecond)
			lease := atOnce(t, fair.New(users[0].Session, name))
			cut := queuedAndListening(t.Context(), fair.New(users[1].Session, name))
			second := queuedAndListening(t.Context(), fair.New(users[2].Session, name))
			users[1].goSilent()
			time.Sleep(off)
			if off > 3*time.Second {
				require.NoError(t, lease.Unlock())
				got := <-second // it was passed over
				require.NoError(t, got.err)
				lease, second = got.lease, nil
			}
			third := queuedAndListening(t.Context(), fair.New(users[3].Session, name))
			users[1].heal()
			time.Sleep(5 * time.Second)
			require.NoError(t, lease.Unlock())
			order := []<-chan lockResult{cut, second, third}
			if !keeps {
				order = []<-chan lockResult{third, cut}
			}
			for _, next := range order {
				if next == nil {
					continue
				}
				got := <-next
				require.NoError(t, got.err)
				require.NoError(t, got.lease.Unlock())
			}
			closeAll()
		}
	})
}

// P6: a queue that the server lost is formed anew within about a second, however many waiters it had.
func TestALostQueueIsSoonFormedAnew(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		t := f.T
		const waiters = 200
		users, closeAll := f.queueUsers(t, 2, time.Millisecond)
		defer closeAll()
		lease := atOnce(t, fair.New(users[0].Session, "anew"))
		var all sync.WaitGroup
		for range waiters {
			all.Go(func() {
				lease, err := fair.New(users[1].Session, "anew").Lock(t.Context())
				require.NoError(t, err)
				require.NoError(t, lease.Unlock())
			})
		}
		time.Sleep(3 * time.Second)
		before, err := f.redis.ZMembers("sb:{anew}:queue")
		require.NoError(t, err)
		require.Len(t, before, waiters)
		f.redis.Del("sb:{anew}:queue")
		time.Sleep(1500 * time.Millisecond)
		after, err := f.redis.ZMembers("sb:{anew}:queue")
		require.NoError(t, err)
		require.Len(t, after, waiters)
		for _, hold := range after {
			require.NotContains(t, before, hold, "an id is used once")
		}
		require.NoError(t, lease.Unlock())
		all.Wait()
	})
}

// P4: tickets that could not be removed in a long outage are removed when it is over. The session still
// waits in that queue, so its heartbeats would keep them alive.
func TestTicketsOfALongOutageAreRemovedAfterIt(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		t := f.T
		users, closeAll := f.queueUsers(t, 3, time.Millisecond)
		defer closeAll()
		lease := atOnce(t, fair.New(users[0].Session, "ghosts"))
		ctx, cancel := context.WithCancel(t.Context())
		var giveUp sync.WaitGroup
		for range 30 {
			giveUp.Go(func() {
				_, err := fair.New(users[1].Session, "ghosts").Lock(ctx)
				require.ErrorIs(t, err, context.Canceled)
			})
		}
		time.Sleep(100 * time.Millisecond)
		stays := queuedAndListening(t.Context(), fair.New(users[1].Session, "ghosts"))
		users[1].goSilent()
		cancel()
		giveUp.Wait()
		time.Sleep(2 * time.Minute)
		waiting, _ := f.queued("ghosts")
		require.Equal(t, 31, waiting)
		users[1].heal()
		time.Sleep(10 * time.Second)
		waiting, _ = f.queued("ghosts")
		require.Equal(t, 1, waiting)
		released := time.Now()
		require.NoError(t, lease.Unlock())
		got := <-stays
		require.NoError(t, got.err)
		require.Less(t, got.at.Sub(released), time.Second)
		require.NoError(t, got.lease.Unlock())
		waiting, isHeld := f.queued("ghosts")
		require.Zero(t, waiting)
		require.False(t, isHeld)
	})
}

// P1, P4: a waiter gives up around the instant in which it is granted the lock. Either it has the lock, or
// another waiter has it at once: the lock is never lost, and never held twice.
func TestAGrantAroundACancelIsNeverLostAndNeverDoubled(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) { f.cancelAroundGrants(redistest.Rounds(300, 1_000)) })
}

func TestSoakOfCancelsAroundGrants(t *testing.T) {
	t.Parallel()
	for more := locktest.Soak(t); more(); {
		bubble(t, func(f *fixture) { f.cancelAroundGrants(2_000) })
	}
}

func (f *fixture) cancelAroundGrants(rounds int) {
	const latency = time.Millisecond
	t := f.T
	users, closeAll := f.queueUsers(t, 3, latency)
	defer closeAll()
	var inside atomic.Int32
	enter := func(lease signalbox.Lease) {
		require.Equal(t, int32(1), inside.Add(1), "not alone")
		time.Sleep(time.Duration(rand.N(3)) * latency / 2)
		require.NoError(t, lease.Err())
		inside.Add(-1)
		require.NoError(t, lease.Unlock())
	}
	begun, taken := time.Now(), 0
	for range rounds {
		lease := atOnce(t, fair.New(users[0].Session, "instant"))
		ctx, cancel := context.WithCancel(t.Context())
		var waits sync.WaitGroup
		waits.Go(func() {
			lease, err := fair.New(users[rand.N(2)].Session, "instant").Lock(ctx)
			if err == nil {
				taken++
				enter(lease)
			}
		})
		time.Sleep(10 * latency)
		time.AfterFunc(rand.N(5*latency), cancel)
		time.Sleep(rand.N(5 * latency))
		require.NoError(t, lease.Unlock())
		third, err := fair.New(users[2].Session, "instant").Lock(t.Context())
		require.NoError(t, err)
		enter(third)
		waits.Wait()
		cancel()
		time.Sleep(10 * latency)
	}
	require.Greater(t, taken, rounds/10)
	require.Less(t, taken, rounds*9/10)
	require.Less(t, time.Since(begun), time.Duration(rounds)*60*latency, "a waiter waited until a grant ended by itself")
	synctest.Wait()
	waiting, isHeld := f.queued("instant")
	require.Zero(t, waiting)
	require.False(t, isHeld)
}
