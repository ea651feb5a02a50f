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
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/semaphore"
)

// Semaphores in the layout of Redisson, tested by Go alone. test/interop has the Java client on the other
// side.

// sharedKinds are the kinds of semaphores that Redisson has: by their options, and the key beside the number.
var sharedKinds = map[string]struct {
	options  []signalbox.LockOption
	timeouts string
}{
	"Expirable": {[]signalbox.LockOption{signalbox.WithLayout(signalbox.Redisson())}, "{a}:timeout"},
	"Plain":     {[]signalbox.LockOption{signalbox.WithLayout(signalbox.Redisson()), semaphore.Plain()}, "{a}:signalbox"},
}

// redissonFixture is one kind in one test: semaphores "a" of three permits.
type redissonFixture struct {
	*testing.T

	server   *redistest.Server
	options  []signalbox.LockOption
	timeouts string
}

func eachShared(t *testing.T, run func(s *redissonFixture)) {
	t.Helper()
	for name, kind := range sharedKinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(&redissonFixture{t, redistest.Start(t), kind.options, kind.timeouts})
		})
	}
}

// of returns the semaphore of a session of its own.
func (s *redissonFixture) of(at redistest.Dialer, options ...signalbox.LockOption) *semaphore.Semaphore {
	s.Helper()
	return semaphore.New(newSession(s, at), "a", 3, append(options, s.options...)...)
}

// free returns how many permits are free by the number, and out how many are out by the key beside it.
func (s *redissonFixture) free() any {
	s.Helper()
	return s.server.MustDo(s, "GET", "a")
}

func (s *redissonFixture) out() int {
	s.Helper()
	return locktest.Count(s, s.server, "ZCARD", s.timeouts)
}

// awaitListener waits until a session listens.
func (s *redissonFixture) awaitListener() {
	s.Helper()
	redistest.Await(s, "a listener", func() bool { return locktest.Listeners(s, s.server, "redisson_sc:{a}") == 1 })
}

// P1, P6: all or none, and waiters are woken.
func TestSharedPermitsAreHandedOffBetweenSessions(t *testing.T) {
	t.Parallel()
	eachShared(t, func(s *redissonFixture) {
		sem, other := s.of(s.server), s.of(s.server)
		lease := mustAcquire(s, sem, 2)
		require.Equal(s, []any{"1", 2}, []any{s.free(), s.out()})
		require.ElementsMatch(s, []any{"a", s.timeouts}, s.server.MustDo(s, "KEYS", "*"))
		_, err := other.TryAcquire(s.Context(), 2)
		require.ErrorIs(s, err, signalbox.ErrHeld)
		one, err := other.TryAcquire(s.Context(), 1)
		require.NoError(s, err)
		waiting := locktest.LaterWith(s.Context(), acquireFunc(other, 3))
		s.awaitListener()
		require.NoError(s, one.Unlock())
		require.Equal(s, 1, available(s, other))
		require.False(s, locktest.IsClosed(waiting))
		require.NoError(s, lease.Unlock())
		next := locktest.MustHave(s, waiting)
		require.Greater(s, next.Token(), one.Token()) // P3
		require.Equal(s, 0, available(s, sem))
		require.NoError(s, next.Unlock())
		require.Equal(s, []any{"3", 0}, []any{s.free(), s.out()})
		require.Equal(s, []any{"a"}, s.server.MustDo(s, "KEYS", "*"))
		require.ErrorIs(s, next.Unlock(), signalbox.ErrNotHeld)
		require.Equal(s, "3", s.free(), "a second time gives nothing")
	})
}

// Waiters of one session are granted in the order of their calls, one try after the other; TryAcquire
// overtakes none of them.
func TestSharedPermitsAreWaitedForInOrderInsideTheSession(t *testing.T) {
	t.Parallel()
	eachShared(t, func(s *redissonFixture) {
		sem := s.of(s.server)
		lease := mustAcquire(s, s.of(s.server), 2)
		many := locktest.LaterWith(s.Context(), acquireFunc(sem, 3))
		s.awaitListener()
		few := locktest.LaterWith(s.Context(), acquireFunc(sem, 1))
		_, err := sem.TryAcquire(s.Context(), 1)
		require.ErrorIs(s, err, signalbox.ErrHeld)
		require.False(s, locktest.IsClosed(few))
		require.NoError(s, lease.Unlock())
		first := locktest.MustHave(s, many)
		require.False(s, locktest.IsClosed(few))
		require.NoError(s, first.Unlock())
		require.NoError(s, locktest.MustHave(s, few).Unlock())
	})
}

// P1: however many want them, there are never more out than there are.
func TestSharedPermitsAreNeverMoreThanThereAre(t *testing.T) {
	t.Parallel()
	eachShared(t, func(s *redissonFixture) {
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
							_, err := sem.Available(ctx) // lasts as long as another caller's try
							return err
						})
					}
					done <- err
				}()
			}
		}
		for range 12 {
			require.NoError(s, redistest.Receive(s, "the workers", done))
		}
		require.Equal(s, []any{"3", 0}, []any{s.free(), s.out()})
	})
}

// A part of what was acquired at once comes back by itself.
func TestSharedPermitsAreReleasedInParts(t *testing.T) {
	t.Parallel()
	eachShared(t, func(s *redissonFixture) {
		w := s.of(s.server).Weighted(s.Context())
		w.OnLost(func(err error) { s.Error(err) })
		require.NoError(s, w.Acquire(s.Context(), 3))
		waiting := locktest.LaterWith(s.Context(), acquireFunc(s.of(s.server), 1))
		s.awaitListener()
		w.Release(1)
		require.NoError(s, locktest.MustHave(s, waiting).Unlock())
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
	sem := semaphore.New(newSession(t, server), "a", 3, signalbox.WithLayout(signalbox.Redisson()))
	require.Equal(t, 3, available(t, sem), "as it would be")
	lease := mustAcquire(t, sem, 2)
	require.NoError(t, sem.SetCapacity(t.Context(), 1))
	require.Equal(t, "-1", server.MustDo(t, "GET", "a"))
	require.Equal(t, 0, available(t, sem))
	_, err := sem.Acquire(t.Context(), 2)
	require.ErrorIs(t, err, signalbox.ErrCapacity)
	exact := semaphore.New(newSession(t, server), "a", 3, signalbox.WithLayout(signalbox.Redisson()), semaphore.ExactCapacity())
	_, err = exact.TryAcquire(t.Context(), 1)
	require.ErrorIs(t, err, signalbox.ErrCapacity)
	_, err = exact.Available(t.Context())
	require.ErrorIs(t, err, signalbox.ErrCapacity)
	waiting := locktest.LaterWith(t.Context(), acquireFunc(sem, 1))
	require.NoError(t, sem.SetCapacity(t.Context(), 3))
	require.NoError(t, locktest.MustHave(t, waiting).Unlock())
	require.NoError(t, lease.Unlock())
	require.Equal(t, "3", server.MustDo(t, "GET", "a"))

	_, err = semaphore.New(newSession(t, server), "b", 5000, signalbox.WithLayout(signalbox.Redisson())).Acquire(t.Context(), 1001)
	require.ErrorIs(t, err, signalbox.ErrBadOption)
	most := mustAcquire(t, semaphore.New(newSession(t, server), "b", 5000, signalbox.WithLayout(signalbox.Redisson())), 1000)
	require.Equal(t, int64(1000), server.MustDo(t, "ZCARD", "{b}:timeout"))
	require.NoError(t, most.Unlock())
	require.Equal(t, "5000", server.MustDo(t, "GET", "b"))
}

// Native overrides a session's defaults, but not the semaphore's own options.
func TestNativeOverridesADefaultOfPlain(t *testing.T) {
	t.Parallel()
	s := newSession(t, redistest.Start(t), signalbox.WithDefaults(signalbox.WithLayout(signalbox.Redisson()), semaphore.Plain()))
	require.NoError(t, semaphore.New(s, "a", 3).Check())
	require.NoError(t, semaphore.New(s, "a", 3, signalbox.WithLayout(signalbox.Native())).Check())
	for _, both := range [][]signalbox.LockOption{{semaphore.Plain(), signalbox.WithLayout(signalbox.Native())}, {signalbox.WithLayout(signalbox.Native()), semaphore.Plain()}} {
		require.ErrorIs(t, semaphore.New(s, "a", 3, both...).Check(), signalbox.ErrBadOption)
	}
}

// A plain semaphore returns an error for what cannot be known of it.
func TestAPlainSemaphoreHasNoCapacity(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server)
	require.ErrorIs(t, semaphore.New(s, "a", 3, semaphore.Plain()).Check(), signalbox.ErrBadOption, "it is Redisson's")
	require.ErrorIs(t, semaphore.New(s, "a", 3, signalbox.WithLayout(signalbox.Redisson()), semaphore.Plain(), semaphore.ExactCapacity()).Check(), signalbox.ErrBadOption)
	sem := semaphore.New(s, "a", 3, signalbox.WithLayout(signalbox.Redisson()), semaphore.Plain())
	require.ErrorIs(t, sem.SetCapacity(t.Context(), 5), signalbox.ErrBadOption)
	waiting := locktest.LaterWith(t.Context(), acquireFunc(sem, 5))
	redistest.Await(t, "a try", func() bool { return server.MustDo(t, "GET", "a") == "3" })
	server.MustDo(t, "INCRBY", "a", "2") // as Java's addPermits
	server.MustDo(t, "PUBLISH", "redisson_sc:{a}", "5")
	require.NoError(t, locktest.MustHave(t, waiting).Unlock())
	require.Equal(t, 5, available(t, sem))
}

// Each permit is listed by itself, as Redisson knows it; a session recognises its own.
func TestHoldersOfSharedPermitsAreListed(t *testing.T) {
	t.Parallel()
	eachShared(t, func(s *redissonFixture) {
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
			require.WithinDuration(s, locktest.ServerTime(s, s.server).Add(30*time.Second), h.Until, redistest.Patience)
		}
		require.Equal(s, []int{2, 1}, []int{own, others})
		require.NoError(s, lease.Unlock())
	})
}

// P9: a key that is no semaphore of Redisson's is left alone, and the library's own of the name is another.
func TestWhatIsNoSemaphoreOfRedissonsIsLeftAlone(t *testing.T) {
	t.Parallel()
	eachShared(t, func(s *redissonFixture) {
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

// P10: the caller gets the error that ends the wait.
func TestWaitingForSharedPermitsEnds(t *testing.T) {
	t.Parallel()
	eachShared(t, func(s *redissonFixture) {
		lease := mustAcquire(s, s.of(s.server), 3)
		session := newSession(s, s.server)
		sem := semaphore.New(session, "a", 3, s.options...)
		ctx, cancel := context.WithCancel(s.Context())
		waiting := locktest.LaterWith(ctx, acquireFunc(sem, 1))
		s.awaitListener()
		cancel()
		err := locktest.MustFail(s, waiting)
		require.True(s, errors.Is(err, context.Canceled) && errors.Is(err, signalbox.ErrHeld), "%v", err)
		waiting = locktest.LaterWith(s.Context(), acquireFunc(sem, 1))
		closed := make(chan error, 1)
		go func() { closed <- session.Close(context.Background()) }()
		require.ErrorIs(s, locktest.MustFail(s, waiting), signalbox.ErrClosed)
		require.NoError(s, redistest.Receive(s, "the end of Close", closed))
		require.NoError(s, lease.Unlock())
		require.Equal(s, []any{"3", 0}, []any{s.free(), s.out()})
	})
}
