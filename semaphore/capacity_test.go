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

// The capacity of SetCapacity overrides that of New, in every process, as long as the key exists.
func TestSetCapacityOverridesNew(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	sem, other := semaphore.New(newSession(t, server), "a", 3), semaphore.New(newSession(t, server), "a", 2)
	require.Equal(t, 3, available(t, sem))
	require.Equal(t, 2, available(t, other), "nothing is set: New's counts")
	require.NoError(t, sem.SetCapacity(t.Context(), 5))
	require.Equal(t, 5, available(t, other))
	lease := mustAcquire(t, other, 5)
	require.Zero(t, available(t, sem))
	require.NoError(t, lease.Unlock())
	_, err := other.Acquire(t.Context(), 6)
	require.ErrorIs(t, err, signalbox.ErrCapacity)
	require.Greater(t, locktest.Integer(t, server.MustDo(t, "PTTL", permitsKey)), int64(3_590_000), "it counts for an hour more")
	server.MustDo(t, "DEL", permitsKey)
	require.NoError(t, mustAcquire(t, other, 2).Unlock())
	require.Equal(t, 2, available(t, sem), "the first who comes says it")
	server.MustDo(t, "SET", permitsKey, "of another program")
	_, err = sem.Available(t.Context())
	require.ErrorIs(t, err, signalbox.ErrWrongKind)
}

// A waiter for more permits than the reduced capacity gets an error, and blocks no waiter behind it.
func TestWaiterAboveTheCapacityFailsAndBlocksNoOther(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	sem, other := semaphore.New(newSession(t, server), "a", 4), semaphore.New(newSession(t, server), "a", 4)
	lease := mustAcquire(t, sem, 1)
	hopeless := queue(t.Context(), t, server, sem, 4, 1)
	behind := queue(t.Context(), t, server, other, 1, 2)
	alsoHopeless := queue(t.Context(), t, server, other, 3, 3)
	require.NoError(t, other.SetCapacity(t.Context(), 2))
	require.NoError(t, locktest.MustHave(t, behind).Unlock())
	for _, w := range []pendingAcquire{hopeless, alsoHopeless} {
		got := redistest.Receive(t, "a result", w)
		require.ErrorIs(t, got.Err, signalbox.ErrCapacity)
		require.ErrorContains(t, got.Err, "there are 2 permits")
	}
	require.NoError(t, lease.Unlock())
	require.Zero(t, tickets(t, server))
	require.Zero(t, heldPermits(t, server))
}

// ExactCapacity refuses any capacity but that of New; nothing else does.
func TestExactCapacityRefusesAnotherNumber(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server)
	exact, lax := semaphore.New(s, "a", 3, semaphore.ExactCapacity()), semaphore.New(s, "a", 4)
	require.NoError(t, mustAcquire(t, exact, 1).Unlock())
	require.NoError(t, mustAcquire(t, lax, 1).Unlock())
	require.NoError(t, lax.SetCapacity(t.Context(), 4))
	for _, call := range []func() error{
		func() error { _, err := exact.Acquire(t.Context(), 1); return err },
		func() error { _, err := exact.TryAcquire(t.Context(), 1); return err },
		func() error { _, err := exact.Available(t.Context()); return err },
	} {
		err := call()
		require.ErrorIs(t, err, signalbox.ErrCapacity)
		require.ErrorContains(t, err, "the server has 4 permits")
	}
	require.NoError(t, exact.SetCapacity(t.Context(), 3))
	require.NoError(t, mustAcquire(t, exact, 3).Unlock())
}

// A request for more permits than the capacity is refused as that, also while others wait in the session,
// which come before every TryAcquire: otherwise a caller that tries again and again would never learn it.
func TestATryForMoreThanThereAreIsErrCapacityThoughOthersWait(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server)
	sem := semaphore.New(s, "a", 3)
	held := mustAcquire(t, sem, 3)
	waiting := queueFirst(t.Context(), t, server, sem)
	_, err := sem.TryAcquire(t.Context(), 4)
	require.ErrorIs(t, err, signalbox.ErrCapacity)
	require.NotErrorIs(t, err, signalbox.ErrHeld)
	require.ErrorContains(t, err, "there are 3 permits")
	_, err = semaphore.New(s, "a", 5).TryAcquire(t.Context(), 4)
	require.ErrorIs(t, err, signalbox.ErrHeld, "New got a greater capacity, for which no call has asked the server")
	require.NoError(t, sem.SetCapacity(t.Context(), 4))
	require.NoError(t, locktest.MustHave(t, waiting).Unlock())
	waiting = queue(t.Context(), t, server, sem, 4, 1)
	_, err = sem.TryAcquire(t.Context(), 4)
	require.ErrorIs(t, err, signalbox.ErrHeld, "the capacity is greater by now than New's")
	require.NoError(t, held.Unlock())
	require.NoError(t, locktest.MustHave(t, waiting).Unlock())
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
