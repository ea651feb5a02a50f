// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/scripts"
	"github.com/signalbox-go/signalbox/semaphore"
)

// permitLayouts are the options of a semaphore in each layout that it has.
var permitLayouts = map[string][]signalbox.LockOption{
	"Native": nil, "Expirable": {signalbox.WithLayout(redisson.Layout())}, "Plain": {signalbox.WithLayout(redisson.Layout()), semaphore.Plain()},
}

// eachLayout runs a test in a bubble with the semaphores of each layout.
func eachLayout(t *testing.T, test func(f *fixture, options []signalbox.LockOption)) {
	t.Helper()
	for name, options := range permitLayouts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubbleOfUsers(t, func(f *fixture) { test(f, options) })
		})
	}
}

// permitsHeld returns how many permits of a semaphore are held, by the server's account.
func (f *fixture) permitsHeld(name string) (sum int) {
	holds, _ := f.redis.SortedSet(locktest.Keys(name).Permits())
	for member, ends := range holds {
		if len(member) > 41 && int64(ends) > time.Now().UnixMicro() {
			n, err := strconv.Atoi(member[41:51])
			require.NoError(f, err)
			sum += n
		}
	}
	return sum
}

// permitsWaited returns how many tickets there are for a semaphore.
func (f *fixture) permitsWaited(name string) int {
	line, _ := f.redis.ZMembers(locktest.Keys(name).PermitsQueue())
	return len(line)
}

// neverAbove fails the test if a script grants more permits than there are. What was held before there were fewer stays.
func (s *faultySession) neverAbove(name string) {
	s.one.Lock()
	defer s.one.Unlock()
	last := 0
	s.after = func() {
		held, capacity := s.fixture.permitsHeld(name), 0
		if n, err := s.fixture.redis.ZScore(locktest.Keys(name).Permits(), "capacity"); err == nil {
			capacity = int(n)
		}
		if held > capacity && held > last {
			s.fixture.Errorf("%d permits are held of %d", held, capacity)
		}
		last = held
	}
}

// mustAcquire acquires permits.
func mustAcquire(f *fixture, sem *semaphore.Semaphore, n int) signalbox.Lease {
	f.Helper()
	return locktest.Must(f, func(ctx context.Context) (signalbox.Lease, error) { return sem.Acquire(ctx, n) })
}

// acquiring acquires permits on another goroutine, and returns when that waits.
func acquiring(ctx context.Context, sem *semaphore.Semaphore, n int) <-chan locktest.Result[signalbox.Lease] {
	returned := locktest.LaterWith(ctx, func(ctx context.Context) (signalbox.Lease, error) { return sem.Acquire(ctx, n) })
	time.Sleep(50 * time.Millisecond)
	return returned
}

// P1, P4, P5, P6: whichever request fails while permits are taken, waited for, released in part and as a whole, and however:
// no more are held than there are, and all come back.
func TestPermitsComeBackWhicheverRequestFails(t *testing.T) {
	t.Parallel()
	const steps, capacity = 7, 4
	eachKind(t, func(f *fixture, kind redistest.FaultKind) {
		s := f.faultySession(locktest.RunsScript(scripts.SessionHello, scripts.SemaphoreEnter, scripts.SemaphorePoll, scripts.SemaphoreLeave, scripts.SemaphoreSplit))
		calm := f.user().Session
		for at := 1; at <= steps; at++ {
			name := fmt.Sprint(at)
			s.reopen()
			s.neverAbove(name)
			other := semaphore.New(calm, name, capacity)
			held := mustAcquire(f, other, 2)
			s.arm(kind, at)
			time.AfterFunc(2*time.Second, func() { _ = held.Unlock() })
			uses := semaphore.New(s.Session, name, capacity).Weighted(f.Context())
			for round := 0; round < 6 && !s.allFired(); round++ {
				require.NoError(f, uses.Acquire(f.Context(), 3))
				uses.Release(1)
				uses.Release(2)
			}
			require.True(f, s.allFired())
			s.heal()
			require.NoError(f, mustAcquire(f, other, capacity).Unlock())
			time.Sleep(10 * time.Second)
			require.Zero(f, f.permitsHeld(name))
			require.Zero(f, f.permitsWaited(name))
			require.Zero(f, locktest.Undoing(s.Session))
		}
	})
}

// P1, P4, P5: the same for permits that are handed over, for which the server is asked now and then.
func TestHandedOverPermitsComeBackWhicheverRequestFails(t *testing.T) {
	t.Parallel()
	const steps, capacity, uses = 12, 2, 4
	eachKind(t, func(f *fixture, kind redistest.FaultKind) {
		s := f.faultySession(locktest.RunsScript(scripts.SemaphoreEnter, scripts.SemaphorePoll, scripts.SemaphoreLeave, scripts.SemaphoreYield))
		calm := f.user().Session
		var faulty int
		for at := 1; at <= steps; at += 1 + at/4 {
			name := fmt.Sprint(at)
			s.reopen()
			s.neverAbove(name)
			require.NoError(f, mustAcquire(f, semaphore.New(s.Session, name, capacity), 1).Unlock())
			s.arm(kind, at)
			var all sync.WaitGroup
			for i := range 6 {
				of := s.Session
				if i == 0 {
					of = calm
				}
				all.Go(func() {
					for range uses {
						lease, err := semaphore.New(of, name, capacity).Acquire(f.Context(), 1)
						if err != nil {
							f.Error(err)
							return
						}
						time.Sleep(12 * time.Millisecond) // of a budget of 20
						if err := lease.Unlock(); err != nil && !errors.Is(err, signalbox.ErrUnconfirmed) && !errors.Is(err, signalbox.ErrLost) {
							f.Error(err)
						}
					}
				})
			}
			all.Wait()
			if s.allFired() {
				faulty++
			}
			s.heal()
			time.Sleep(time.Minute)
			require.Zero(f, f.permitsHeld(name))
			require.Zero(f, f.permitsWaited(name))
			require.Zero(f, locktest.Undoing(s.Session))
			require.NoError(f, mustAcquire(f, semaphore.New(calm, name, capacity), capacity).Unlock())
		}
		require.GreaterOrEqual(f, faulty, 4)
	})
}

// P4: a TryAcquire that is given up leaves nothing behind, whatever becomes of its request.
func TestGivenUpTryAcquireTakesNoPermits(t *testing.T) {
	t.Parallel()
	eachLayout(t, func(f *fixture, options []signalbox.LockOption) {
		s, calm := f.faultySession(locktest.RunsScript(scripts.SemaphoreEnter, scripts.Load("redisson/permit-acquire", 1))), f.user().Session
		for _, kind := range redistest.FaultKinds() {
			sem := semaphore.New(s.Session, "a", 3, options...)
			require.NoError(f, mustAcquire(f, sem, 1).Unlock())
			ctx, cancel := context.WithCancel(f.Context())
			s.arm(kind, 1)
			s.then(1, cancel)
			lease, err := sem.TryAcquire(ctx, 2)
			s.awaitFault()
			if err == nil {
				require.NoError(f, lease.Unlock())
			} else {
				require.ErrorIs(f, err, context.Canceled, kind)
			}
			time.Sleep(10 * time.Second)
			require.Zero(f, locktest.Undoing(s.Session))
			require.NoError(f, mustAcquire(f, semaphore.New(calm, "a", 3, options...), 3).Unlock(), kind)
			s.heal()
		}
	})
}

// P5: a call whose reply is lost is sent again, and counts once: an Acquire, the release of a part, and that of the rest.
func TestPermitStepsWithLostRepliesCountOnce(t *testing.T) {
	t.Parallel()
	eachLayout(t, func(f *fixture, options []signalbox.LockOption) {
		s := f.faultySession(locktest.RunsScript(scripts.SemaphoreEnter, scripts.SemaphoreSplit, scripts.SemaphoreLeave,
			scripts.Load("redisson/permit-acquire", 1), scripts.Load("redisson/permit-split", 1), scripts.Load("redisson/permit-release", 1)))
		there := semaphore.New(f.user().Session, "a", 5, options...)
		free := func(want int) {
			f.Helper()
			time.Sleep(10 * time.Second)
			n, err := there.Available(f.Context())
			require.NoError(f, err)
			require.Equal(f, want, n)
		}
		for _, kind := range redistest.FaultKinds() {
			uses := semaphore.New(s.Session, "a", 5, options...).Weighted(f.Context())
			for _, c := range []struct {
				do   func()
				free int
			}{
				{func() { require.NoError(f, uses.Acquire(f.Context(), 4)) }, 1},
				{func() { uses.Release(3) }, 4},
				{func() { uses.Release(1) }, 5},
			} {
				s.arm(kind, 1)
				c.do()
				s.awaitFault()
				free(c.free)
				s.heal()
			}
		}
	})
}

// P4, P6: the ticket of a waiter that gave up arrives after its leave. It keeps others out for no longer
// than its not-after, even though its session continues and keeps it alive, and a holder renews.
func TestALateTicketDelaysOthersByItsNotAfter(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		s := f.faultySession(locktest.RunsScript(scripts.SemaphoreEnter))
		other, sem := semaphore.New(f.user().Session, "a", 3), semaphore.New(s.Session, "a", 3)
		held := mustAcquire(f, other, 1)
		require.NoError(f, mustAcquire(f, sem, 1).Unlock())
		ctx, cancel := context.WithCancel(f.Context())
		s.arm(redistest.DelayRequest, 1)
		gaveUp := acquiring(ctx, sem, 3)
		cancel()
		require.ErrorIs(f, locktest.MustFail(f, gaveUp), context.Canceled)
		s.cut() // its leaving goes another way
		time.Sleep(2 * time.Second)
		require.Equal(f, 1, f.permitsWaited("a"), "the ticket without a waiter")
		began := time.Now()
		require.NoError(f, locktest.MustHave(f, acquiring(f.Context(), sem, 2)).Unlock())
		require.Less(f, time.Since(began), 5*time.Second)
		require.NoError(f, held.Err())
		require.NoError(f, held.Unlock())
		require.Zero(f, f.permitsWaited("a"))
	})
}

// P2, P6: a server that comes back empty serves all waiters, and its holder learns of the loss.
func TestEmptyServerServesAllWaitersForPermits(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		users := []queueUser{f.user(), f.user(), f.user()}
		held := mustAcquire(f, semaphore.New(users[0].Session, "a", 4), 4)
		var waiting []<-chan locktest.Result[signalbox.Lease]
		for n := range 20 {
			waiting = append(waiting, acquiring(f.Context(), semaphore.New(users[1+n%2].Session, "a", 4), 1+n%4))
		}
		require.GreaterOrEqual(f, f.permitsWaited("a"), 4)
		f.redis.FlushAll()
		for _, u := range users {
			u.cut()
		}
		began := time.Now()
		served := make(chan error, len(waiting))
		for _, next := range waiting {
			go func() {
				got := <-next
				if got.Err == nil {
					got.Err = got.Value.Unlock()
				}
				served <- got.Err
			}()
		}
		for range waiting {
			require.NoError(f, redistest.Receive(f, "the permits", served))
		}
		require.Less(f, time.Since(began), 5*time.Second)
		redistest.Receive(f, "the end of the lease", held.Done())
		require.ErrorIs(f, held.Err(), signalbox.ErrLost)
	})
}

// P6: Close ends the waits of those that only wait for another of their session, though the call of that gets no reply.
func TestCloseEndsWaitsBehindAPermitCallWithoutReply(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		s := f.faultySession(locktest.RunsScript(scripts.SemaphoreEnter))
		sem := semaphore.New(s.Session, "a", 1)
		held := mustAcquire(f, semaphore.New(f.user().Session, "a", 1), 1)
		first, second, third := acquiring(f.Context(), sem, 1), acquiring(f.Context(), sem, 1), acquiring(f.Context(), sem, 1)
		s.arm(redistest.SwallowRequest, 1)
		require.NoError(f, held.Unlock())
		lease := locktest.MustHave(f, first)
		s.awaitFault()
		began := time.Now()
		require.Error(f, s.Close(endedContext()))
		require.LessOrEqual(f, time.Since(began), time.Second)
		require.ErrorIs(f, lease.Err(), signalbox.ErrClosed)
		require.ErrorIs(f, locktest.MustFail(f, second), signalbox.ErrClosed)
		require.ErrorIs(f, locktest.MustFail(f, third), signalbox.ErrClosed)
	})
}

// P1: while the capacity changes all the time no permits are granted beyond it, and in the end all are free.
func TestPermitsAreNeverAboveACapacityThatChanges(t *testing.T) {
	t.Parallel()
	const greatest, uses = 9, 300
	bubbleOfUsers(t, func(f *fixture) {
		s := f.faultySession(locktest.RunsScript(scripts.SemaphoreResize))
		users := []queueUser{f.user(), f.user(), f.user()}
		for i, u := range users {
			u.latency.Store(int64(time.Duration(i) * time.Millisecond))
		}
		s.neverAbove("a")
		var served atomic.Int64
		var all sync.WaitGroup
		for i := range 12 {
			sem := semaphore.New(users[i%3].Session, "a", greatest)
			all.Go(func() {
				for served.Load() < uses {
					lease, err := sem.Acquire(f.Context(), 1+i%3)
					if err != nil {
						f.Error(err)
						return
					}
					served.Add(1)
					time.Sleep(time.Duration(i) * time.Millisecond)
					if err := lease.Unlock(); err != nil {
						f.Error(err)
					}
				}
			})
		}
		setter := semaphore.New(s.Session, "a", greatest)
		for n := 0; served.Load() < uses; n++ {
			require.NoError(f, setter.SetCapacity(f.Context(), 3+n*5%7))
			time.Sleep(20 * time.Millisecond)
		}
		require.NoError(f, setter.SetCapacity(f.Context(), greatest))
		all.Wait()
		time.Sleep(time.Second)
		require.Zero(f, f.permitsHeld("a"))
		require.Zero(f, f.permitsWaited("a"))
	})
}
