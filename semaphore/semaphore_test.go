// SPDX-License-Identifier: Apache-2.0

package semaphore_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/semaphore"
)

// P7: Acquire and Unlock are one round trip each, once the scripts are known.
func TestAcquireAndUnlockAreOneRoundTripEach(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	// One that listens asks when it begins to whether its holds are there still.
	sem := semaphore.New(newSession(t, server, signalbox.WithPolling()), "a", 3)
	require.NoError(t, mustAcquire(t, sem, 2).Unlock())
	sent := server.SentBy(func() { require.NoError(t, mustAcquire(t, sem, 2).Unlock()) })
	require.Equal(t, int64(2), sent["evalsha"])
	require.Zero(t, heldPermits(t, server))
	require.Equal(t, 3, available(t, sem))
}

// P1: no more permits are held than the capacity, and the script that releases permits grants them, in order.
func TestPermitsAreGrantedInOrderAsTheyComeBack(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	here, elsewhere := semaphore.New(newSession(t, server), "a", 3), semaphore.New(newSession(t, server), "a", 3)
	one, two := mustAcquire(t, here, 1), mustAcquire(t, elsewhere, 2)
	require.Zero(t, available(t, here))
	large := queue(t.Context(), t, server, here, 3, 1)
	small := queue(t.Context(), t, server, elsewhere, 1, 2)
	require.NoError(t, one.Unlock())
	require.Equal(t, 2, heldPermits(t, server), "the large one waits, and the small one behind it")
	require.Equal(t, 2, tickets(t, server))
	_, err := here.TryAcquire(t.Context(), 1)
	require.ErrorIs(t, err, signalbox.ErrHeld)
	_, err = semaphore.New(newSession(t, server), "a", 3).TryAcquire(t.Context(), 1)
	require.ErrorIs(t, err, signalbox.ErrHeld, "one is free, and a waiter wants more")
	require.NoError(t, two.Unlock())
	three := locktest.MustHave(t, large)
	require.Greater(t, three.Token(), two.Token())
	require.False(t, locktest.IsClosed(small))
	require.NoError(t, three.Unlock())
	require.NoError(t, locktest.MustHave(t, small).Unlock())
	require.Zero(t, heldPermits(t, server))
}

// P8: only the lease releases its permits, once; a second release raises nothing.
func TestPermitsAreReleasedByTheirLeaseOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server)
	sem := semaphore.New(s, "a", 3)
	one, two := mustAcquire(t, sem, 1), mustAcquire(t, sem, 2)
	require.NoError(t, one.Unlock())
	require.ErrorIs(t, one.Unlock(), signalbox.ErrNotHeld)
	require.Equal(t, 2, heldPermits(t, server))
	require.NoError(t, two.Err())
	require.Equal(t, 1, available(t, semaphore.New(newSession(t, server), "a", 3)))
	require.NoError(t, two.Unlock())
	require.ErrorIs(t, two.Unlock(), signalbox.ErrNotHeld)
	require.Equal(t, 3, available(t, sem))
}

// P10: a request that no server could grant fails at once, and sends nothing.
func TestBadArgumentsAreErrorsAtOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server, signalbox.WithPolling())
	sem := semaphore.New(s, "a", 3)
	require.NoError(t, mustAcquire(t, sem, 1).Unlock())
	require.Empty(t, server.SentBy(func() {
		for _, n := range []int{0, -1} {
			_, err := sem.Acquire(t.Context(), n)
			require.ErrorIs(t, err, signalbox.ErrBadOption)
			_, err = sem.TryAcquire(t.Context(), n)
			require.ErrorIs(t, err, signalbox.ErrBadOption)
			require.ErrorIs(t, sem.SetCapacity(t.Context(), n), signalbox.ErrBadOption)
			require.ErrorIs(t, semaphore.New(s, "a", n).Check(), signalbox.ErrBadOption)
			_, err = semaphore.New(s, "a", n).Acquire(t.Context(), 1)
			require.ErrorIs(t, err, signalbox.ErrBadOption)
		}
		if more := int64(semaphore.MaxPermits) + 1; int64(int(more)) == more { // an int may have no more
			_, err := sem.Acquire(t.Context(), int(more))
			require.ErrorIs(t, err, signalbox.ErrCapacity)
		}
		_, err := sem.Acquire(nil, 1) //nolint:staticcheck // what is tested
		require.ErrorIs(t, err, signalbox.ErrBadOption)
		_, err = sem.Acquire(locktest.Ended(), 1)
		require.ErrorIs(t, err, context.Canceled)
	}))
}
