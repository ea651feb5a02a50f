// SPDX-License-Identifier: Apache-2.0

package semaphore_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/semaphore"
)

// A number that is one permit only once it is cut to 32 bits takes none.
func TestWeightedOfANegativeNumberTakesNothing(t *testing.T) {
	t.Parallel()
	w := semaphore.New(signalbox.NewSession(nil), "a", 1).Weighted(t.Context())
	for _, n := range []int64{-1, -(1 << 32) + 1, math.MinInt64} {
		require.ErrorIs(t, w.Acquire(t.Context(), n), signalbox.ErrBadOption)
		require.False(t, w.TryAcquire(n))
	}
}
