// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
	"github.com/signalbox-go/signalbox/semaphore"
)

// budget is how long permits are handed over inside a process before the server is asked.
const budget = 20 * time.Millisecond

// Order, P7: permits are handed over for the budget and no longer, counted from the server's grant; then a
// waiter of another process has them.
func TestPermitsAreHandedOverForTheBudgetAndNoLonger(t *testing.T) {
	t.Parallel()
	const latency = time.Millisecond
	for _, held := range []time.Duration{budget - time.Millisecond, budget + 5*time.Millisecond} { // the next waiter asks meanwhile
		bubble(t, func(f *fixture) {
			t := f.T
			users, closeAll := f.queueUsers(t, 2, latency)
			defer closeAll()
			here, there := semaphore.New(users[0].Session, "a", 1).Permits(1), semaphore.New(users[1].Session, "a", 1).Permits(1)
			lease, err := here.Lock(t.Context())
			require.NoError(t, err)
			one := queuedForPermits(t.Context(), here)
			two, other := queuedForPermits(t.Context(), here), queuedForPermits(t.Context(), there)
			require.NoError(t, lease.Unlock()) // long after the budget
			first := <-one
			require.NoError(t, first.err)
			time.Sleep(held)
			require.NoError(t, first.lease.Unlock())
			next, last := two, other
			if held > budget {
				next, last = other, two
			}
			got := <-next
			require.NoError(t, got.err)
			require.Empty(t, last)
			require.Greater(t, got.lease.Token(), first.lease.Token())
			if held < budget {
				require.Equal(t, first.at.Add(held), got.at, "it took a round trip")
			} else {
				require.Equal(t, first.at.Add(held+2*latency), got.at, "one script and one message away")
			}
			require.NoError(t, got.lease.Unlock())
			got = <-last
			require.NoError(t, got.err)
			require.NoError(t, got.lease.Unlock())
		})
	}
}

// Order, P3, P7: within the budget permits go from goroutine to goroutine in the order of arrival, with tokens that rise, in no
// time and without a command.
func TestPermitsThatAreHandedOverCostNothing(t *testing.T) {
	t.Parallel()
	const latency = time.Millisecond
	bubble(t, func(f *fixture) {
		t := f.T
		users, closeAll := f.queueUsers(t, 2, latency)
		defer closeAll()
		here, there := semaphore.New(users[0].Session, "a", 1).Permits(1), semaphore.New(users[1].Session, "a", 1).Permits(1)
		held, err := there.Lock(t.Context())
		require.NoError(t, err)
		var waiting []<-chan lockResult
		for range 5 {
			waiting = append(waiting, queuedForPermits(t.Context(), here))
		}
		require.NoError(t, held.Unlock())
		got := <-waiting[0]
		require.NoError(t, got.err)
		time.Sleep(budget / 2) // another process waits in the queue by now
		before, passed := f.commands.Load(), time.Now()
		for i, next := range waiting[1:4] {
			last := got.lease.Token()
			require.NoError(t, got.lease.Unlock())
			got = <-next
			require.NoError(t, got.err)
			require.Equal(t, passed, got.at)
			require.Greater(t, got.lease.Token(), last)
			for _, later := range waiting[i+2:] {
				require.Empty(t, later, "out of order")
			}
		}
		require.Equal(t, before, f.commands.Load())
		require.NoError(t, got.lease.Unlock())
		got = <-waiting[4]
		require.NoError(t, got.err)
		require.NoError(t, got.lease.Unlock())
	})
}

// queuedForPermits is queuedAndListening for permits.
func queuedForPermits(ctx context.Context, p semaphore.Permits) <-chan lockResult {
	returned := make(chan lockResult, 1)
	go func() {
		lease, err := p.Lock(ctx)
		returned <- lockResult{lease, err, time.Now()}
	}()
	time.Sleep(500 * time.Millisecond)
	return returned
}

// Order, P6: one process hands permits over all the time. A request of another process, or for all permits
// in the same process, waits only for the tickets before it, each for a budget and a use.
func TestHandOversInAProcessStarveNoOther(t *testing.T) {
	t.Parallel()
	const capacity, latency, used = 3, time.Millisecond, 2 * time.Millisecond
	bubble(t, func(f *fixture) {
		t := f.T
		users, closeAll := f.queueUsers(t, 2, latency)
		defer closeAll()
		small := semaphore.New(users[0].Session, "a", capacity)
		requested := f.counts(scripts.SemaphoreLeave)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		uses := 0
		var mu sync.Mutex
		for range 12 {
			all.Go(func() {
				for {
					lease, err := small.Acquire(ctx, 1)
					if err != nil {
						return
					}
					time.Sleep(used)
					mu.Lock()
					uses++
					mu.Unlock()
					if err := lease.Unlock(); err != nil {
						t.Error(err)
					}
				}
			})
		}
		for n := range 60 {
			time.Sleep(50*time.Millisecond + time.Duration(n)*time.Millisecond/3)
			sem, permits := semaphore.New(users[1].Session, "a", capacity), 1
			switch n % 3 {
			case 1:
				permits = capacity
			case 2:
				sem, permits = small, capacity
			}
			began := time.Now()
			lease, err := sem.Acquire(t.Context(), permits)
			require.NoError(t, err)
			require.Less(t, time.Since(began), 2*(budget+used)+10*latency, "%d of them", permits)
			require.NoError(t, lease.Unlock())
		}
		cancel()
		all.Wait()
		require.Greater(t, uses, 20*int(requested.Load()), "they are not handed over")
	})
}
