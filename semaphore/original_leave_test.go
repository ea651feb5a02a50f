// SPDX-License-Identifier: Apache-2.0

package semaphore_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// If a waiter for many permits gives up, those behind it are served, even if no permit is released
// meanwhile.
func TestWeightedAcquireThatGivesUpDelaysNoOther(t *testing.T) {
	t.Parallel()
	eachWeighted(t, 10, func(t *testing.T, sem weightedSemaphore) {
		require.NoError(t, sem.Acquire(t.Context(), 1))
		for range 20 { // whichever of the two is first: the one behind, or the giving up
			ctx, cancel := context.WithCancel(t.Context())
			gaveUp, behind := make(chan error, 1), make(chan error, 1)
			go func() { gaveUp <- sem.Acquire(ctx, 10) }()
			// There are some to be had until it waits.
			redistest.Await(t, "that it waits", func() bool {
				free := sem.TryAcquire(1)
				if free {
					sem.Release(1)
				}
				return !free
			})
			go func() { behind <- sem.Acquire(t.Context(), 2) }()
			require.Empty(t, behind)
			cancel()
			require.ErrorIs(t, redistest.Receive(t, "the end of the wait", gaveUp), context.Canceled)
			require.NoError(t, redistest.Receive(t, "what it was in the way of", behind))
			sem.Release(2)
		}
		sem.Release(1)
		require.True(t, sem.TryAcquire(10), "those who gave up have nothing")
		sem.Release(10)
	})
}
