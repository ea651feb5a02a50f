// SPDX-License-Identifier: Apache-2.0

package semaphore_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	original "golang.org/x/sync/semaphore"

	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/semaphore"
)

// weightedSemaphore is the surface of the original, which Weighted is to have.
type weightedSemaphore interface {
	Acquire(ctx context.Context, n int64) error
	TryAcquire(n int64) bool
	Release(n int64)
}

var (
	_ weightedSemaphore = (*semaphore.Weighted)(nil)
	_ weightedSemaphore = (*original.Weighted)(nil)
)

// eachWeighted runs a test of the original and of ours: what the one promises the other keeps.
func eachWeighted(t *testing.T, size int, test func(t *testing.T, sem weightedSemaphore)) {
	t.Helper()
	t.Run("Original", func(t *testing.T) {
		t.Parallel()
		test(t, original.NewWeighted(int64(size)))
	})
	t.Run("Ours", func(t *testing.T) {
		t.Parallel()
		sem := semaphore.New(locktest.SessionOf(t, redistest.Start(t).Client(t, locktest.Steady)), "a", size).Weighted(t.Context())
		sem.OnLost(func(err error) { t.Error(err) })
		test(t, sem)
	})
}

func TestWeightedTryAcquireReturnsAtOnce(t *testing.T) {
	t.Parallel()
	eachWeighted(t, 3, func(t *testing.T, sem weightedSemaphore) {
		require.True(t, sem.TryAcquire(2))
		require.False(t, sem.TryAcquire(2))
		require.True(t, sem.TryAcquire(1))
		require.False(t, sem.TryAcquire(1))
		require.True(t, sem.TryAcquire(0))
		require.False(t, sem.TryAcquire(4))
		sem.Release(3)
		require.True(t, sem.TryAcquire(3))
		sem.Release(3)
	})
}

// What was acquired at once may be released in parts, and what was acquired in parts at once.
func TestWeightedReleasesInWhateverParts(t *testing.T) {
	t.Parallel()
	eachWeighted(t, 10, func(t *testing.T, sem weightedSemaphore) {
		require.NoError(t, sem.Acquire(t.Context(), 10))
		free := 0
		for range 10 {
			sem.Release(1)
			free++
			require.False(t, sem.TryAcquire(int64(free+1)))
			require.True(t, sem.TryAcquire(int64(free)))
			sem.Release(int64(free))
		}
		for _, n := range []int64{3, 3, 4} {
			require.True(t, sem.TryAcquire(n))
		}
		sem.Release(5)
		require.False(t, sem.TryAcquire(6))
		require.True(t, sem.TryAcquire(5))
		sem.Release(9)
		sem.Release(0)
		sem.Release(1)
		require.True(t, sem.TryAcquire(10))
		sem.Release(10)
	})
}

func TestWeightedReleaseOfMoreThanHeldPanics(t *testing.T) {
	t.Parallel()
	eachWeighted(t, 3, func(t *testing.T, sem weightedSemaphore) {
		require.Panics(t, func() { sem.Release(1) })
	})
	eachWeighted(t, 3, func(t *testing.T, sem weightedSemaphore) {
		require.True(t, sem.TryAcquire(2))
		require.Panics(t, func() { sem.Release(3) })
	})
}

func TestWeightedAcquireOfMoreThanThereAreWaitsForItsContext(t *testing.T) {
	t.Parallel()
	eachWeighted(t, 2, func(t *testing.T, sem weightedSemaphore) {
		ctx, cancel := context.WithCancel(t.Context())
		doomed := make(chan error, 1)
		go func() { doomed <- sem.Acquire(ctx, 3) }()
		require.NoError(t, sem.Acquire(t.Context(), 2), "it delays no other")
		sem.Release(2)
		select {
		case err := <-doomed:
			t.Fatal(err)
		default:
		}
		cancel()
		require.ErrorIs(t, <-doomed, context.Canceled)
	})
}

func TestWeightedAcquireEndsWithItsContext(t *testing.T) {
	t.Parallel()
	eachWeighted(t, 2, func(t *testing.T, sem weightedSemaphore) {
		require.NoError(t, sem.Acquire(t.Context(), 2))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, sem.Acquire(ctx, 1), context.DeadlineExceeded)
		sem.Release(2)
		require.ErrorIs(t, sem.Acquire(ctx, 1), context.DeadlineExceeded, "an ended context acquires nothing")
		require.NoError(t, sem.Acquire(t.Context(), 2))
		sem.Release(2)
	})
}
