// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/inspect"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/semaphore"
)

// What Java says of a lock that Go holds.
func TestJavaSeesThatGoHolds(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p, g := newPeer(t, release, server), newGoSide(t, server)
		require.Equal(t, "false", p.must(t, "a", "locked", "a"))
		took(t, g.take("a"))
		require.Equal(t, "true", p.must(t, "a", "locked", "a"))
		require.Equal(t, "false", p.must(t, "a", "mine", "a"))
		require.Equal(t, "0", p.must(t, "a", "count", "a"), "it counts the thread's own entries")
		left, err := strconv.ParseInt(p.must(t, "a", "ttl", "a"), 10, 64)
		require.NoError(t, err)
		require.Positive(t, left)
		require.LessOrEqual(t, left, time.Hour.Milliseconds())
		require.Equal(t, "false", p.must(t, "a", "try", "a", 0, 1000))
		require.Len(t, hash(t, server, "a"), 1)
		g.release(t, "a")
		require.Equal(t, "false", p.must(t, "a", "locked", "a"))
		require.Equal(t, "-2", p.must(t, "a", "ttl", "a"), "there is no key")
	})
}

// What Go says of a lock that Java holds.
func TestGoSeesThatJavaHolds(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p, l := newPeer(t, release, server), newGoSide(t, server).lock("a")
		isLocked, err := l.IsLocked(locktest.Context(t))
		require.NoError(t, err)
		require.False(t, isLocked)
		p.must(t, "a", "lock", "a", 60_000)
		isLocked, err = l.IsLocked(locktest.Context(t))
		require.NoError(t, err)
		require.True(t, isLocked)
		_, err = l.TryLock(locktest.Context(t))
		require.ErrorIs(t, err, signalbox.ErrHeld)
		h, err := l.Holder(locktest.Context(t))
		require.NoError(t, err)
		require.Equal(t, p.owner(t, "a"), h.Label, "as Redisson writes it")
		require.Equal(t, "reentrant", h.Kind)
		ends := redistest.EndOf(t, server, "a")
		require.Equal(t, time.UnixMilli(ends), h.Until)
		require.Zero(t, h.Since)
		require.Zero(t, h.Token)
		p.must(t, "a", "unlock", "a")
		_, err = l.Holder(locktest.Context(t))
		require.ErrorIs(t, err, signalbox.ErrNotHeld)
	})
}

// P2: a lock that is taken by force is taken from either side, by either.
func TestEitherSideTakesByForce(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p, g := newPeer(t, release, server), newGoSide(t, server)

		p.must(t, "a", "lock", "a", 60_000)
		waiter := p.send("b", "lock", "a", 60_000)
		awaitListeners(t, server, "a", 1)
		require.NoError(t, g.lock("a").ForceUnlock(locktest.Context(t)))
		p.take(t, waiter) // told by the message
		require.Equal(t, "false", p.must(t, "a", "mine", "a"))
		p.must(t, "b", "unlock", "a")

		s := locktest.Session(t, server, signalbox.WithDefaults(signalbox.WithLayout(redisson.Layout()), signalbox.WithRenewedLease(5*time.Second)))
		lease, err := reentrant.New(s, "b").Lock(locktest.Context(t))
		require.NoError(t, err)
		require.Equal(t, "true", p.must(t, "a", "force", "b"))
		redistest.Receive(t, "the loss, by a renewal", lease.Done())
		require.ErrorIs(t, lease.Err(), signalbox.ErrLost)
		awaitNothing(t, server)
	})
}

// P1, P2: Break ends the permits of both sides, and a waiter in Java acquires them. Both sides count the same then, and
// a release that comes late adds nothing.
func TestPermitsOfBothSidesAreBroken(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p, g, operator := newPeer(t, release, server), newGoSide(t, server).session, newGoSide(t, server).session
		require.Equal(t, "true", p.must(t, "a", "permit-found", "a", 4))
		java := p.must(t, "a", "permit-take", "a", 1, 60_000)
		sem := semaphore.New(g, "a", 4)
		lease, err := sem.Acquire(locktest.Context(t), 3)
		require.NoError(t, err)
		waiter := p.send("b", "permit-take", "a", 3, time.Hour.Milliseconds())
		redistest.Await(t, "a waiter", func() bool { return listeners(t, server, "redisson_sc:{a}") == 1 })
		require.NoError(t, inspect.Break(locktest.Context(t), operator, "a"))
		ids := p.take(t, waiter)
		redistest.Receive(t, "the loss", lease.Done())
		require.ErrorIs(t, lease.Err(), signalbox.ErrLost)
		require.Equal(t, "false", p.must(t, "a", "permit-give", "a", java))
		require.ErrorIs(t, lease.Unlock(), signalbox.ErrLost)
		require.Equal(t, []string{"1", "3", "4"}, []string{
			p.must(t, "a", "permit-available", "a"), p.must(t, "a", "permit-acquired", "a"), p.must(t, "a", "permit-capacity", "a"),
		})
		free, err := sem.Available(locktest.Context(t))
		require.NoError(t, err)
		require.Equal(t, 1, free)
		require.Equal(t, "3", p.must(t, "a", "permit-give-all", "a", ids))
		require.Equal(t, "4", p.must(t, "a", "permit-available", "a"))
		requireKeys(t, server, "a")
	})
}

// Locks of one name in two layouts are two locks, also in one session.
func TestALayoutIsOnesOwn(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := locktest.Session(t, server)
	native, err := reentrant.New(s, "a").TryLock(locktest.Context(t))
	require.NoError(t, err)
	shared, err := reentrant.New(s, "a", signalbox.WithLayout(redisson.Layout())).TryLock(locktest.Context(t))
	require.NoError(t, err)
	_, err = reentrant.New(s, "a", signalbox.WithLayout(redisson.Layout())).TryLock(locktest.Context(t))
	require.ErrorIs(t, err, signalbox.ErrHeld)
	require.NoError(t, native.Unlock())
	require.NoError(t, shared.Unlock())
	require.Equal(t, []any{locktest.Key("a")}, server.MustDo(t, "KEYS", "*"), "the native one's floor")
}
