// SPDX-License-Identifier: Apache-2.0

package semaphore_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/scripts"
	"github.com/signalbox-go/signalbox/semaphore"
)

// Semaphores in the layout of Redisson, as far as Go alone can tell. test/interop has the Java client on the other side.

// sharedKinds are the kinds of semaphores that Redisson has: by their options, and the key beside the number.
var sharedKinds = map[string]struct {
	options  []signalbox.LockOption
	timeouts string
}{
	"Expirable": {[]signalbox.LockOption{signalbox.Redisson()}, "{a}:timeout"},
	"Plain":     {[]signalbox.LockOption{signalbox.Redisson(), semaphore.Plain()}, "{a}:signalbox"},
}

// sharing is one kind in one test: semaphores "a" of three permits.
type sharing struct {
	*testing.T

	server   *redistest.Server
	options  []signalbox.LockOption
	timeouts string
}

func eachShared(t *testing.T, run func(s *sharing)) {
	t.Helper()
	for name, kind := range sharedKinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(&sharing{t, redistest.Start(t), kind.options, kind.timeouts})
		})
	}
}

// of answers the semaphore of a session of its own.
func (s *sharing) of(at dialer, options ...signalbox.LockOption) *semaphore.Semaphore {
	s.Helper()
	return semaphore.New(newSession(s, at), "a", 3, append(options, s.options...)...)
}

// free answers how many permits are free by the number, and out how many are out by the key beside it.
func (s *sharing) free() any {
	s.Helper()
	return s.server.MustDo(s, "GET", "a")
}

func (s *sharing) out() int {
	s.Helper()
	return int(integer(s, s.server.MustDo(s, "ZCARD", s.timeouts)))
}

// awaitListeners waits until so many sessions listen.
func (s *sharing) awaitListeners(n int64) {
	s.Helper()
	await(s, "listeners", func() bool {
		reply, _ := s.server.MustDo(s, "PUBSUB", "NUMSUB", "redisson_sc:{a}").([]any)
		return reply[1] == n
	})
}

// P1, P6: all or none, and who waits is woken.
func TestSharedPermitsAreHandedOnBetweenSessions(t *testing.T) {
	t.Parallel()
	eachShared(t, func(s *sharing) {
		sem, other := s.of(s.server), s.of(s.server)
		lease := mustAcquire(s, sem, 2)
		require.Equal(s, []any{"1", 2}, []any{s.free(), s.out()})
		require.ElementsMatch(s, []any{"a", s.timeouts}, s.server.MustDo(s, "KEYS", "*"))
		_, err := other.TryAcquire(s.Context(), 2)
		require.ErrorIs(s, err, signalbox.ErrHeld)
		one, err := other.TryAcquire(s.Context(), 1)
		require.NoError(s, err)
		waiting := acquireLater(s.Context(), other, 3)
		s.awaitListeners(1)
		require.NoError(s, one.Unlock())
		require.Equal(s, 1, available(s, other))
		require.False(s, isClosed(waiting))
		require.NoError(s, lease.Unlock())
		next := mustHave(s, waiting)
		require.Greater(s, next.Token(), one.Token()) // P3
		require.Equal(s, 0, available(s, sem))
		require.NoError(s, next.Unlock())
		require.Equal(s, []any{"3", 0}, []any{s.free(), s.out()})
		require.Equal(s, []any{"a"}, s.server.MustDo(s, "KEYS", "*"))
		require.ErrorIs(s, next.Unlock(), signalbox.ErrNotHeld)
		require.Equal(s, "3", s.free(), "a second time gives nothing")
	})
}

// Those of one session come in as they asked, one try after the other; TryAcquire goes before none of them.
func TestSharedPermitsAreWaitedForInOrderInsideTheSession(t *testing.T) {
	t.Parallel()
	eachShared(t, func(s *sharing) {
		sem := s.of(s.server)
		lease := mustAcquire(s, s.of(s.server), 2)
		many := acquireLater(s.Context(), sem, 3)
		s.awaitListeners(1)
		few := acquireLater(s.Context(), sem, 1)
		_, err := sem.TryAcquire(s.Context(), 1)
		require.ErrorIs(s, err, signalbox.ErrHeld)
		require.False(s, isClosed(few))
		require.NoError(s, lease.Unlock())
		first := mustHave(s, many)
		require.False(s, isClosed(few))
		require.NoError(s, first.Unlock())
		require.NoError(s, mustHave(s, few).Unlock())
	})
}

// P1: however many want them, there are never more out than there are.
func TestSharedPermitsAreNeverMoreThanThereAre(t *testing.T) {
	t.Parallel()
	eachShared(t, func(s *sharing) {
		var inside atomic.Int64
		done := make(chan error)
		for range 3 {
			sem := s.of(s.server)
			for n := range 4 {
				go func() {
					var err error
					for i := 0; i < 20 && err == nil; i++ {
						permits := int64(1 + n%3)
						err = sem.Do(context.Background(), int(permits), func(ctx context.Context, _ signalbox.Lease) error {
							defer inside.Add(-permits)
							if now := inside.Add(permits); now > 3 {
								return fmt.Errorf("%d permits are out", now)
							}
							_, err := sem.Available(ctx) // takes as long as somebody else's try
							return err
						})
					}
					done <- err
				}()
			}
		}
		for range 12 {
			require.NoError(s, within(s, "the workers", done))
		}
		require.Equal(s, []any{"3", 0}, []any{s.free(), s.out()})
	})
}

// P4: a call whose answer never came is undone, and nothing is counted twice.
func TestSharedPermitsWithoutAnAnswerComeBack(t *testing.T) {
	t.Parallel()
	eachShared(t, func(s *sharing) {
		for _, kind := range []redistest.Kind{redistest.CutAfterRequest, redistest.DelayReply, redistest.DelayRequest} {
			proxy := redistest.NewProxy(s, s.server.Addr())
			sem := s.of(proxy)
			givesUp(s, proxy, sem, scripts.RedissonPermitAcquire, kind)
			await(s, "all permits are free", func() bool { return s.free() == "3" && s.out() == 0 })
		}
	})
}

// P5: an Acquire whose answer was lost is sent again, and has its permits once; so is a release.
func TestSharedStepsWhoseAnswersAreLostCountOnce(t *testing.T) {
	t.Parallel()
	eachShared(t, func(s *sharing) {
		proxy := redistest.NewProxy(s, s.server.Addr())
		sem := s.of(proxy)
		require.NoError(s, mustAcquire(s, sem, 1).Unlock())
		requests(proxy, scripts.RedissonPermitAcquire)
		lost := proxy.Arm(redistest.Fault{Kind: redistest.CutAfterRequest})
		lease := mustAcquire(s, sem, 2)
		within(s, "the fault", lost.Fired())
		require.Equal(s, []any{"1", 2}, []any{s.free(), s.out()})
		requests(proxy, scripts.RedissonPermitRelease)
		proxy.ResetCount()
		lost = proxy.Arm(redistest.Fault{Kind: redistest.CutAfterRequest})
		require.ErrorIs(s, lease.Unlock(), signalbox.ErrUnconfirmed)
		within(s, "the fault", lost.Fired())
		await(s, "the release, and its copy", func() bool { return proxy.Requests() > 1 })
		require.NoError(s, mustAcquire(s, sem, 3).Unlock())
		require.Equal(s, []any{"3", 0}, []any{s.free(), s.out()})
	})
}

// P2: a lease is renewed while it is held; one whose permits somebody else took out is lost, and adds nothing.
func TestSharedPermitsAreRenewedAndNeverMadeAgain(t *testing.T) {
	t.Parallel()
	eachShared(t, func(s *sharing) {
		lease := mustAcquire(s, s.of(s.server, signalbox.RenewedLease(steady)), 2)
		ends := func() any { return s.server.MustDo(s, "ZRANGE", s.timeouts, "0", "0", "WITHSCORES").([]any)[1] }
		before := ends()
		await(s, "a renewal", func() bool { return ends() != before })
		require.NoError(s, lease.Err())
		s.server.MustDo(s, "DEL", s.timeouts)
		s.server.MustDo(s, "SET", "a", "3")
		within(s, "the end of the lease", lease.Done())
		require.ErrorIs(s, lease.Err(), signalbox.ErrLost)
		require.ErrorIs(s, lease.Unlock(), signalbox.ErrLost)
		require.Equal(s, []any{"3", 0}, []any{s.free(), s.out()})
	})
}

// P6: the permits of a holder that crashed come back when its lease ends; nobody tells.
func TestSharedPermitsOfACrashedHolderComeBack(t *testing.T) {
	t.Parallel()
	eachShared(t, func(s *sharing) {
		proxy := redistest.NewProxy(s, s.server.Addr())
		crashed := mustAcquire(s, s.of(proxy, signalbox.RenewedLease(steady)), 3)
		waiting := acquireLater(s.Context(), s.of(s.server), 2)
		s.awaitListeners(1)
		proxy.Refuse()
		proxy.CutAll()
		lease := mustHave(s, waiting)
		require.Error(s, crashed.Err(), "it knew before")
		require.Equal(s, []any{"1", 2}, []any{s.free(), s.out()})
		require.NoError(s, lease.Unlock())
	})
}

// P6: where the message is lost, or the session polls, the waiter tries about once a second.
func TestSharedPermitsAreFoundWithoutAMessage(t *testing.T) {
	t.Parallel()
	eachShared(t, func(s *sharing) {
		proxy := redistest.NewProxy(s, s.server.Addr())
		lease := mustAcquire(s, s.of(s.server), 3)
		deaf := acquireLater(s.Context(), s.of(proxy), 1)
		s.awaitListeners(1)
		poller := semaphore.New(newSession(s, s.server, signalbox.WithPolling()), "a", 3, s.options...)
		polls := acquireLater(s.Context(), poller, 1)
		proxy.DropPushes(true)
		require.NoError(s, lease.Unlock())
		require.NoError(s, mustHave(s, deaf).Unlock())
		require.NoError(s, mustHave(s, polls).Unlock())
	})
}

// Leases end as elsewhere, with what ends them.
func TestSharedPermitsHaveTheLeaseThatWasAskedFor(t *testing.T) {
	t.Parallel()
	eachShared(t, func(s *sharing) {
		fixed := mustAcquire(s, s.of(s.server, signalbox.FixedLease(200*time.Millisecond)), 1)
		short := mustAcquire(s, s.of(s.server, signalbox.MaxHold(200*time.Millisecond)), 1)
		within(s, "the end of the fixed lease", fixed.Done())
		require.ErrorIs(s, fixed.Err(), signalbox.ErrLost)
		within(s, "the end of the greatest hold", short.Done())
		require.ErrorIs(s, short.Err(), signalbox.ErrMaxHold)
		sem := s.of(s.server)
		await(s, "all permits are free", func() bool { return available(s, sem) == 3 })
		require.NoError(s, mustAcquire(s, sem, 3).Unlock())
	})
}

// A part of what was acquired at once comes back by itself.
func TestSharedPermitsAreGivenBackInParts(t *testing.T) {
	t.Parallel()
	eachShared(t, func(s *sharing) {
		w := s.of(s.server).Weighted(s.Context())
		w.OnLost(func(err error) { s.Error(err) })
		require.NoError(s, w.Acquire(s.Context(), 3))
		waiting := acquireLater(s.Context(), s.of(s.server), 1)
		s.awaitListeners(1)
		w.Release(1)
		require.NoError(s, mustHave(s, waiting).Unlock())
		require.Equal(s, []any{"1", 2}, []any{s.free(), s.out()})
		require.True(s, w.TryAcquire(1))
		w.Release(3)
		require.Equal(s, []any{"3", 0}, []any{s.free(), s.out()})
	})
}

// Capacity is what Redisson's setPermits makes of it.
func TestSharedCapacityIsOnTheServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	sem := semaphore.New(newSession(t, server), "a", 3, signalbox.Redisson())
	require.Equal(t, 3, available(t, sem), "as it would be")
	lease := mustAcquire(t, sem, 2)
	require.NoError(t, sem.SetCapacity(t.Context(), 1))
	require.Equal(t, "-1", server.MustDo(t, "GET", "a"))
	require.Equal(t, 0, available(t, sem))
	_, err := sem.Acquire(t.Context(), 2)
	require.ErrorIs(t, err, signalbox.ErrCapacity)
	exact := semaphore.New(newSession(t, server), "a", 3, signalbox.Redisson(), semaphore.ExactCapacity())
	_, err = exact.TryAcquire(t.Context(), 1)
	require.ErrorIs(t, err, signalbox.ErrCapacity)
	_, err = exact.Available(t.Context())
	require.ErrorIs(t, err, signalbox.ErrCapacity)
	waiting := acquireLater(t.Context(), sem, 1)
	require.NoError(t, sem.SetCapacity(t.Context(), 3))
	require.NoError(t, mustHave(t, waiting).Unlock())
	require.NoError(t, lease.Unlock())
	require.Equal(t, "3", server.MustDo(t, "GET", "a"))

	_, err = semaphore.New(newSession(t, server), "b", 5000, signalbox.Redisson()).Acquire(t.Context(), 1001)
	require.ErrorIs(t, err, signalbox.ErrBadOption)
	most := mustAcquire(t, semaphore.New(newSession(t, server), "b", 5000, signalbox.Redisson()), 1000)
	require.Equal(t, int64(1000), server.MustDo(t, "ZCARD", "{b}:timeout"))
	require.NoError(t, most.Unlock())
	require.Equal(t, "5000", server.MustDo(t, "GET", "b"))
}

// What nobody can know of a plain semaphore is not answered.
// Native takes back what a session's defaults say, and not what the semaphore was told itself.
func TestNativeTakesBackADefaultOfPlain(t *testing.T) {
	t.Parallel()
	s := newSession(t, redistest.Start(t), signalbox.WithDefaults(signalbox.Redisson(), semaphore.Plain()))
	require.NoError(t, semaphore.New(s, "a", 3).Check())
	require.NoError(t, semaphore.New(s, "a", 3, signalbox.Native()).Check())
	for _, both := range [][]signalbox.LockOption{{semaphore.Plain(), signalbox.Native()}, {signalbox.Native(), semaphore.Plain()}} {
		require.ErrorIs(t, semaphore.New(s, "a", 3, both...).Check(), signalbox.ErrBadOption)
	}
}

func TestAPlainSemaphoreHasNoCapacity(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server)
	require.ErrorIs(t, semaphore.New(s, "a", 3, semaphore.Plain()).Check(), signalbox.ErrBadOption, "it is Redisson's")
	require.ErrorIs(t, semaphore.New(s, "a", 3, signalbox.Redisson(), semaphore.Plain(), semaphore.ExactCapacity()).Check(), signalbox.ErrBadOption)
	sem := semaphore.New(s, "a", 3, signalbox.Redisson(), semaphore.Plain())
	require.ErrorIs(t, sem.SetCapacity(t.Context(), 5), signalbox.ErrBadOption)
	waiting := acquireLater(t.Context(), sem, 5)
	await(t, "a try", func() bool { return server.MustDo(t, "GET", "a") == "3" })
	server.MustDo(t, "INCRBY", "a", "2") // as Java's addPermits
	server.MustDo(t, "PUBLISH", "redisson_sc:{a}", "5")
	require.NoError(t, mustHave(t, waiting).Unlock())
	require.Equal(t, 5, available(t, sem))
}

// Each permit is told by itself, as Redisson knows it; a session knows its own.
func TestHoldersOfSharedPermitsAreTold(t *testing.T) {
	t.Parallel()
	eachShared(t, func(s *sharing) {
		session := newSession(s, s.server)
		sem := semaphore.New(session, "a", 3, s.options...)
		lease := mustAcquire(s, sem, 2)
		s.server.MustDo(s, "ZADD", s.timeouts, "922337203685477", "0123456789abcdef", "1000", "gone")
		var own, others int
		for h, err := range sem.Holders(s.Context()) {
			require.NoError(s, err)
			require.Equal(s, 1, h.Permits)
			if h.Session == "" {
				others++
				require.Equal(s, hex.EncodeToString([]byte("0123456789abcdef")), h.Label)
				require.Zero(s, h.Until, "it has no end")
				continue
			}
			own++
			require.Regexp(s, `^[0-9a-f]{32}$`, h.Label)
			require.WithinDuration(s, serverTime(s, s.server).Add(30*time.Second), h.Until, patience)
		}
		require.Equal(s, []int{2, 1}, []int{own, others})
		require.NoError(s, lease.Unlock())
	})
}

// P9: what is no semaphore of Redisson's is left alone, and the library's own of the name is another.
func TestWhatIsNoSemaphoreOfRedissonsIsLeftAlone(t *testing.T) {
	t.Parallel()
	eachShared(t, func(s *sharing) {
		sem := s.of(s.server)
		for name, set := range map[string][]any{"Text": {"SET", "a", "a text"}, "Hash": {"HSET", "a", "mode", "read"}} {
			s.server.MustDo(s, set...)
			before := s.server.MustDo(s, "DUMP", "a")
			_, err := sem.Acquire(s.Context(), 1)
			require.ErrorIs(s, err, signalbox.ErrWrongKind, name)
			_, err = sem.Available(s.Context())
			require.ErrorIs(s, err, signalbox.ErrWrongKind, name)
			require.Equal(s, before, s.server.MustDo(s, "DUMP", "a"), name)
			s.server.MustDo(s, "DEL", "a")
		}
		session := newSession(s, s.server)
		native := mustAcquire(s, semaphore.New(session, "a", 3), 3)
		require.NoError(s, mustAcquire(s, semaphore.New(session, "a", 3, s.options...), 3).Unlock())
		require.NoError(s, native.Unlock())
	})
}

// P10: what ends the waiting is told.
func TestWaitingForSharedPermitsEnds(t *testing.T) {
	t.Parallel()
	eachShared(t, func(s *sharing) {
		lease := mustAcquire(s, s.of(s.server), 3)
		session := newSession(s, s.server)
		sem := semaphore.New(session, "a", 3, s.options...)
		ctx, cancel := context.WithCancel(s.Context())
		waiting := acquireLater(ctx, sem, 1)
		s.awaitListeners(1)
		cancel()
		err := within(s, "the end of the wait", waiting).err
		require.True(s, errors.Is(err, context.Canceled) && errors.Is(err, signalbox.ErrHeld), "%v", err)
		waiting = acquireLater(s.Context(), sem, 1)
		go func() { _ = session.Close(context.Background()) }()
		require.ErrorIs(s, within(s, "the end of the session", waiting).err, signalbox.ErrClosed)
		require.NoError(s, lease.Unlock())
		require.Equal(s, []any{"3", 0}, []any{s.free(), s.out()})
	})
}
