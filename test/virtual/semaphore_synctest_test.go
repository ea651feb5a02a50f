// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/scripts"
	"github.com/signalbox-go/signalbox/semaphore"
)

// budget is how long permits are handed over inside a process before the server is asked.
const budget = 20 * time.Millisecond

// permitsHeld returns how many permits of a semaphore are held, by the server's account, and when the first of them end.
func (f *fixture) permitsHeld(name string) (sum int, first time.Time) {
	holds, _ := f.redis.SortedSet(locktest.Keys(name).Permits())
	for member, ends := range holds {
		at := time.UnixMicro(int64(ends))
		if len(member) > 41 && at.After(time.Now()) { // others say something of the semaphore
			n, err := strconv.Atoi(member[41:51])
			require.NoError(f, err)
			sum += n
			if first.IsZero() || at.Before(first) {
				first = at
			}
		}
	}
	return sum, first
}

// neverAbove fails the test if a script grants more permits than there are. What was held before there were fewer stays.
func (s *faultySession) neverAbove(name string) {
	s.one.Lock()
	defer s.one.Unlock()
	last := 0
	s.after = func() {
		held, _ := s.fixture.permitsHeld(name)
		capacity, _ := s.fixture.redis.ZScore(locktest.Keys(name).Permits(), "capacity") // 0 if there is none
		if held > int(capacity) && held > last {
			s.fixture.Errorf("%d permits are held of %v", held, capacity)
		}
		last = held
	}
}

// P5: a call whose reply is lost is sent again, and counts once: an Acquire, the release of a part, and that of the rest.
func TestPermitStepsWithLostRepliesCountOnce(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]signalbox.LockOption{
		"Native": nil, "Expirable": {signalbox.WithLayout(redisson.Layout())}, "Plain": {signalbox.WithLayout(redisson.Layout()), semaphore.Plain()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubbleOfUsers(t, func(f *fixture) {
				s := f.faultySession(proto.SemaphoreEnterScript, proto.SemaphoreSplitScript, proto.SemaphoreLeaveScript,
					scripts.Load("redisson/permit-acquire", 1), scripts.Load("redisson/permit-split", 1), scripts.Load("redisson/permit-release", 1))
				there := semaphore.New(f.user().Session, "a", 5, options...)
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
						time.Sleep(10 * time.Second)
						free, err := there.Available(f.Context())
						require.NoError(f, err)
						require.Equal(f, c.free, free)
						s.heal()
					}
				}
			})
		})
	}
}

// H10, H11: as the lease of a crashed holder ends its permits count as free, even if no call has touched
// the semaphore since. The holder's late release adds none.
func TestPermitsThatEndedAreFreeWithoutACall(t *testing.T) {
	t.Parallel()
	const capacity = 4
	bubbleOfUsers(t, func(f *fixture) {
		holder := f.user()
		sem := semaphore.New(f.user().Session, "a", capacity)
		free := func() int {
			n, err := sem.Available(f.Context())
			require.NoError(f, err)
			return n
		}
		crashed, err := semaphore.New(holder.Session, "a", capacity).Acquire(f.Context(), 3)
		require.NoError(f, err)
		time.Sleep(time.Minute)
		holder.goSilent()
		_, ends := f.permitsHeld("a")
		time.Sleep(time.Until(ends) - time.Millisecond)
		require.Equal(f, 1, free())
		time.Sleep(2 * time.Millisecond)
		require.Equal(f, capacity, free())
		for range sem.Holders(f.Context()) {
			f.Error("no permits are held")
		}
		holder.heal()
		require.ErrorIs(f, crashed.Unlock(), signalbox.ErrLost)
		time.Sleep(time.Minute)
		require.Equal(f, capacity, free())
		_, err = sem.TryAcquire(f.Context(), capacity+1)
		require.ErrorIs(f, err, signalbox.ErrCapacity)
	})
}
