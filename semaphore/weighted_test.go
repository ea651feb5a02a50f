// SPDX-License-Identifier: Apache-2.0

package semaphore_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/semaphore"
)

// A released part is granted to its waiter in the same step.
func TestReleasedPartIsGrantedToAWaiter(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	sem := semaphore.New(newSession(t, server), "a", 4)
	w := sem.Weighted(t.Context())
	require.NoError(t, w.Acquire(t.Context(), 4))
	here := queue(t.Context(), t, server, sem, 1, 1)
	elsewhere := queue(t.Context(), t, server, semaphore.New(newSession(t, server), "a", 4), 1, 2)
	w.Release(2)
	require.Equal(t, 4, heldPermits(t, server))
	require.NoError(t, locktest.MustHave(t, here).Unlock())
	require.NoError(t, locktest.MustHave(t, elsewhere).Unlock())
	require.Equal(t, 2, heldPermits(t, server))
	w.Release(2)
	require.Zero(t, heldPermits(t, server))
}

// A number that is one permit only once it is cut to 32 bits takes none.
func TestWeightedOfANegativeNumberTakesNothing(t *testing.T) {
	t.Parallel()
	w := semaphore.New(signalbox.NewSession(nil), "a", 1).Weighted(t.Context())
	for _, n := range []int64{-1, -(1 << 32) + 1, math.MinInt64} {
		require.ErrorIs(t, w.Acquire(t.Context(), n), signalbox.ErrBadOption)
		require.False(t, w.TryAcquire(n))
	}
}
