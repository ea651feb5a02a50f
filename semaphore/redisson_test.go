// SPDX-License-Identifier: Apache-2.0

package semaphore_test

import (
	"encoding/hex"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/semaphore"
)

// Semaphores in the layout of Redisson, tested by Go alone. test/interop has the Java client on the other
// side.

// sharedKinds are the kinds of semaphores that Redisson has: by their options, and the key beside the number.
var sharedKinds = map[string]struct {
	options  []signalbox.LockOption
	timeouts string
}{
	"Expirable": {[]signalbox.LockOption{signalbox.WithLayout(redisson.Layout())}, "{a}:timeout"},
	"Plain":     {[]signalbox.LockOption{signalbox.WithLayout(redisson.Layout()), semaphore.Plain()}, "{a}:signalbox"},
}

// redissonFixture is one kind in one test: semaphores "a" of three permits.
type redissonFixture struct {
	*testing.T

	server   *redistest.Server
	options  []signalbox.LockOption
	timeouts string
}

func eachShared(t *testing.T, run func(f *redissonFixture)) {
	t.Helper()
	for name, kind := range sharedKinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(&redissonFixture{t, redistest.Start(t), kind.options, kind.timeouts})
		})
	}
}

// of returns the semaphore of a session of its own.
func (f *redissonFixture) of(at redistest.Dialer, options ...signalbox.LockOption) *semaphore.Semaphore {
	f.Helper()
	return semaphore.New(newSession(f, at), "a", 3, append(options, f.options...)...)
}

// free returns how many permits are free by the number, and out how many are out by the key beside it.
func (f *redissonFixture) free() any {
	f.Helper()
	return f.server.MustDo(f, "GET", "a")
}

func (f *redissonFixture) out() int {
	f.Helper()
	return locktest.Count(f, f.server, "ZCARD", f.timeouts)
}

// awaitListener waits until a session listens.
func (f *redissonFixture) awaitListener() {
	f.Helper()
	redistest.Await(f, "a listener", func() bool { return locktest.Listeners(f, f.server, "redisson_sc:{a}") == 1 })
}

// P1, P6: all or none, and waiters are woken.
func TestSharedPermitsAreHandedOffBetweenSessions(t *testing.T) {
	t.Parallel()
	eachShared(t, func(f *redissonFixture) {
		sem, other := f.of(f.server), f.of(f.server)
		lease := mustAcquire(f, sem, 2)
		require.Equal(f, []any{"1", 2}, []any{f.free(), f.out()})
		require.ElementsMatch(f, []any{"a", f.timeouts}, f.server.MustDo(f, "KEYS", "*"))
		_, err := other.TryAcquire(f.Context(), 2)
		require.ErrorIs(f, err, signalbox.ErrHeld)
		one, err := other.TryAcquire(f.Context(), 1)
		require.NoError(f, err)
		waiting := locktest.LaterWith(f.Context(), acquireFunc(other, 3))
		f.awaitListener()
		require.NoError(f, one.Unlock())
		require.Equal(f, 1, available(f, other))
		require.False(f, locktest.IsClosed(waiting))
		require.NoError(f, lease.Unlock())
		next := locktest.MustHave(f, waiting)
		require.Greater(f, next.Token(), one.Token()) // P3
		require.Equal(f, 0, available(f, sem))
		require.NoError(f, next.Unlock())
		require.Equal(f, []any{"3", 0}, []any{f.free(), f.out()})
		require.Equal(f, []any{"a"}, f.server.MustDo(f, "KEYS", "*"))
		require.ErrorIs(f, next.Unlock(), signalbox.ErrNotHeld)
		require.Equal(f, "3", f.free(), "a second time gives nothing")
	})
}

// A part of what was acquired at once comes back by itself.
func TestSharedPermitsAreReleasedInParts(t *testing.T) {
	t.Parallel()
	eachShared(t, func(f *redissonFixture) {
		w := f.of(f.server).Weighted(f.Context())
		w.OnLost(func(err error) { f.Error(err) })
		require.NoError(f, w.Acquire(f.Context(), 3))
		waiting := locktest.LaterWith(f.Context(), acquireFunc(f.of(f.server), 1))
		f.awaitListener()
		w.Release(1)
		require.NoError(f, locktest.MustHave(f, waiting).Unlock())
		require.Equal(f, []any{"1", 2}, []any{f.free(), f.out()})
		require.True(f, w.TryAcquire(1))
		w.Release(3)
		require.Equal(f, []any{"3", 0}, []any{f.free(), f.out()})
	})
}

// Capacity is what Redisson's setPermits makes of it.
func TestSharedCapacityIsOnTheServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	sem := semaphore.New(newSession(t, server), "a", 3, signalbox.WithLayout(redisson.Layout()))
	require.Equal(t, 3, available(t, sem), "as it would be")
	lease := mustAcquire(t, sem, 2)
	require.NoError(t, sem.SetCapacity(t.Context(), 1))
	require.Equal(t, "-1", server.MustDo(t, "GET", "a"))
	require.Equal(t, 0, available(t, sem))
	_, err := sem.Acquire(t.Context(), 2)
	require.ErrorIs(t, err, signalbox.ErrCapacity)
	exact := semaphore.New(newSession(t, server), "a", 3, signalbox.WithLayout(redisson.Layout()), semaphore.ExactCapacity())
	_, err = exact.TryAcquire(t.Context(), 1)
	require.ErrorIs(t, err, signalbox.ErrCapacity)
	_, err = exact.Available(t.Context())
	require.ErrorIs(t, err, signalbox.ErrCapacity)
	waiting := locktest.LaterWith(t.Context(), acquireFunc(sem, 1))
	require.NoError(t, sem.SetCapacity(t.Context(), 3))
	require.NoError(t, locktest.MustHave(t, waiting).Unlock())
	require.NoError(t, lease.Unlock())
	require.Equal(t, "3", server.MustDo(t, "GET", "a"))

	_, err = semaphore.New(newSession(t, server), "b", 5000, signalbox.WithLayout(redisson.Layout())).Acquire(t.Context(), 1001)
	require.ErrorIs(t, err, signalbox.ErrBadOption)
	most := mustAcquire(t, semaphore.New(newSession(t, server), "b", 5000, signalbox.WithLayout(redisson.Layout())), 1000)
	require.Equal(t, int64(1000), server.MustDo(t, "ZCARD", "{b}:timeout"))
	require.NoError(t, most.Unlock())
	require.Equal(t, "5000", server.MustDo(t, "GET", "b"))
}

// Native overrides a session's defaults, but not the semaphore's own options.
func TestNativeOverridesADefaultOfPlain(t *testing.T) {
	t.Parallel()
	s := newSession(t, redistest.Start(t), signalbox.WithDefaults(signalbox.WithLayout(redisson.Layout()), semaphore.Plain()))
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
	require.ErrorIs(t, semaphore.New(s, "a", 3, signalbox.WithLayout(redisson.Layout()), semaphore.Plain(), semaphore.ExactCapacity()).Check(), signalbox.ErrBadOption)
	sem := semaphore.New(s, "a", 3, signalbox.WithLayout(redisson.Layout()), semaphore.Plain())
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
	eachShared(t, func(f *redissonFixture) {
		session := newSession(f, f.server)
		sem := semaphore.New(session, "a", 3, f.options...)
		lease := mustAcquire(f, sem, 2)
		f.server.MustDo(f, "ZADD", f.timeouts, "922337203685477", "0123456789abcdef", "1000", "gone")
		var own, others int
		for h, err := range sem.Holders(f.Context()) {
			require.NoError(f, err)
			require.Equal(f, 1, h.Permits)
			if h.Session == "" {
				others++
				require.Equal(f, hex.EncodeToString([]byte("0123456789abcdef")), h.Label)
				require.Zero(f, h.Until, "it has no end")
				continue
			}
			own++
			require.Regexp(f, `^[0-9a-f]{32}$`, h.Label)
			require.WithinDuration(f, locktest.ServerTime(f, f.server).Add(30*time.Second), h.Until, redistest.Patience)
		}
		require.Equal(f, []int{2, 1}, []int{own, others})
		require.NoError(f, lease.Unlock())
	})
}
