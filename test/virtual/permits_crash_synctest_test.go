// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/semaphore"
)

// firstEnd returns when the first of all holds of a semaphore ends, by the server's account.
func (f *fixture) firstEnd(name string) (first time.Time) {
	key := locktest.Keys(name).Permits()
	members, err := f.redis.ZMembers(key)
	require.NoError(f.T, err)
	for _, member := range members {
		if len(member) < 41 {
			continue // says something of the semaphore
		}
		ends, err := f.redis.ZScore(key, member)
		require.NoError(f.T, err)
		if at := time.UnixMicro(int64(ends)); first.IsZero() || at.Before(first) {
			first = at
		}
	}
	require.False(f.T, first.IsZero(), "no permits are held")
	return first
}

// H10, P6: the permits of a holder that crashed go to the head of the queue as its lease ends, be they one
// or several, and the others' permits do not change.
func TestPermitsOfACrashedHolderAreGrantedAsItsLeaseEnds(t *testing.T) {
	t.Parallel()
	const capacity, life = 5, 10 * time.Second
	bubble(t, func(f *fixture) {
		t := f.T
		for n := range 12 {
			name, had := fmt.Sprint("crash/", n), 1+n%4
			users, closeAll := f.queueUsers(t, 3, 0)
			beside, err := semaphore.New(users[1].Session, name, capacity).Acquire(t.Context(), capacity-had)
			require.NoError(t, err)
			time.Sleep(time.Second) // so that it has been renewed, and does not end first
			crashed, err := semaphore.New(users[0].Session, name, capacity, signalbox.WithRenewedLease(life)).Acquire(t.Context(), had)
			require.NoError(t, err)
			taken := time.Now()
			time.Sleep(time.Duration(n) * 777 * time.Millisecond)
			next := queuedForPermits(t.Context(), semaphore.New(users[2].Session, name, capacity).Permits(had))
			users[0].goSilent()
			died, ends := time.Now(), f.firstEnd(name)
			least := died.Add(life / 2)
			if died.Sub(taken) < time.Second { // it may not have been renewed
				least = taken.Add(3 * time.Second)
			}
			require.WithinRange(t, ends, least, died.Add(life))
			got := <-next
			require.NoError(t, got.err)
			require.WithinRange(t, got.at, ends, ends.Add(5*time.Millisecond))
			require.ErrorIs(t, crashed.Err(), signalbox.ErrLost)
			require.NoError(t, beside.Err())
			require.NoError(t, got.lease.Unlock())
			require.NoError(t, beside.Unlock())
			closeAll()
		}
	})
}

// H10, H11: as the lease of a crashed holder ends its permits count as free, even if no call has touched
// the semaphore since. The holder's late release adds none.
func TestPermitsThatEndedAreFreeWithoutACall(t *testing.T) {
	t.Parallel()
	const capacity, life = 4, 10 * time.Second
	bubble(t, func(f *fixture) {
		t := f.T
		users, closeAll := f.queueUsers(t, 2, 0)
		defer closeAll()
		sem := semaphore.New(users[1].Session, "a", capacity)
		free := func() int {
			n, err := sem.Available(t.Context())
			require.NoError(t, err)
			return n
		}
		crashed, err := semaphore.New(users[0].Session, "a", capacity, signalbox.WithRenewedLease(life)).Acquire(t.Context(), 3)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		users[0].goSilent()
		ends := f.firstEnd("a")
		time.Sleep(time.Until(ends) - time.Millisecond)
		require.Equal(t, 1, free())
		time.Sleep(2 * time.Millisecond)
		require.Equal(t, capacity, free())
		for range sem.Holders(t.Context()) {
			t.Error("no permits are held")
		}
		users[0].heal()
		require.ErrorIs(t, crashed.Unlock(), signalbox.ErrLost)
		time.Sleep(time.Minute)
		require.Equal(t, capacity, free())
		_, err = sem.TryAcquire(t.Context(), capacity+1)
		require.ErrorIs(t, err, signalbox.ErrCapacity)
		lease, err := sem.TryAcquire(t.Context(), capacity)
		require.NoError(t, err)
		require.NoError(t, lease.Unlock())
	})
}

// Order, P6: several goroutines in each of several processes want hundreds of semaphores. Each waits no
// longer than the goroutines with the same request take to be served once, each for one use and one
// hand-over time.
func TestNoWaiterStarvesAmongHundredsOfSemaphores(t *testing.T) {
	t.Parallel()
	const processes, each, uses = 2, 2, 2
	names := redistest.Rounds(100, 200)
	const latency, used = time.Millisecond, 15 * time.Millisecond
	bubble(t, func(f *fixture) {
		t := f.T
		users, closeAll := f.queueUsers(t, processes, latency)
		defer closeAll()
		var all sync.WaitGroup
		var mu sync.Mutex
		longest := time.Duration(0)
		for i := range names * processes * each {
			sem := semaphore.New(users[i/names%processes].Session, fmt.Sprint("load/", i%names), 1)
			all.Go(func() {
				for range uses {
					began := time.Now()
					lease, err := sem.Acquire(t.Context(), 1)
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					longest = max(longest, time.Since(began))
					mu.Unlock()
					time.Sleep(used)
					if err := lease.Unlock(); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		t.Logf("%v at the longest", longest)
		require.Greater(t, longest, used, "no call waited")
		require.Less(t, longest, processes*each*(used+budget+4*latency))
	})
}
