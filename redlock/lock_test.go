// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/redlock"
)

// P1: two processes exclude each other, and each server is given back.
func TestALockIsHeldByOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 5)
	one, other := w.lock("a"), w.lock("a")
	lease := w.mustLockAll(one, "a")
	mustBeHeld(t.Context(), t, other)
	require.NoError(t, lease.Unlock())
	require.ErrorIs(t, lease.Err(), signalbox.ErrReleased)
	require.ErrorIs(t, lease.Unlock(), signalbox.ErrNotHeld)
	w.awaitFree("a")
	lease, err := other.TryLock(t.Context())
	require.NoError(t, err)
	require.NoError(t, lease.Unlock())
}

// P6: a waiter is woken by the release, long before it would look by itself.
func TestAWaiterHasTheLockWhenItIsReleased(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 5)
	one, other := w.lock("a"), w.lock("a")
	for range 10 {
		lease := mustLock(t, one)
		waiting := lockLater(t.Context(), other)
		require.False(t, isClosed(waiting))
		require.NoError(t, lease.Unlock())
		next := mustHave(t, waiting)
		require.Greater(t, next.Token(), lease.Token())
		require.NoError(t, next.Unlock())
	}
}

// P6.
func TestAWaitEndsWithItsContextAndSaysThatTheLockIsHeld(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	lease := mustLock(t, w.lock("a"))
	sessions := w.sessions()
	ctx, cancel := context.WithTimeout(t.Context(), 2*moment)
	defer cancel()
	_, err := redlock.New(sessions, "a").Lock(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, signalbox.ErrHeld)
	require.NoError(t, lease.Unlock())
	w.awaitFree("a")
}

// An ended context acquires nothing.
func TestAnEndedContextAcquiresNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	mu := w.lock("a")
	for _, lock := range []func(context.Context) (signalbox.Lease, error){mu.Lock, mu.TryLock} {
		_, err := lock(endedContext())
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, signalbox.ErrHeld)
	}
	require.Zero(t, w.holds("a"))
}

// P9: names are kept apart, whatever is in them.
func TestNamesAreKeptApart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	sessions := w.sessions()
	for _, name := range []string{"a", "{a}", "a}", "}{", "%7Ba", "a:lock", "\x00*", strings.Repeat("x", 512)} {
		lease := w.mustLockAll(redlock.New(sessions, name), name)
		defer func() { require.NoError(t, lease.Unlock()) }()
	}
}
