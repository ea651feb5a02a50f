// SPDX-License-Identifier: Apache-2.0

package otel_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/contrib/otel"
)

// Boundaries that do not rise are an error that says which.
func TestBoundariesThatDoNotRiseAreRefused(t *testing.T) {
	t.Parallel()
	for _, bad := range [][]float64{{2, 1}, {1, 1}, {math.NaN()}, {1, math.Inf(1)}, {math.Inf(-1), 1}, {math.MaxFloat64, -math.MaxFloat64}} {
		_, err := otel.Observer(nil, nil, otel.WithHoldBuckets(bad...))
		require.ErrorIs(t, err, signalbox.ErrBadOption)
		require.ErrorContains(t, err, "WithHoldBuckets")
		_, err = otel.Observer(nil, nil, otel.WithWaitBuckets(bad...))
		require.ErrorIs(t, err, signalbox.ErrBadOption)
	}
	_, err := otel.Observer(nil, nil, otel.WithHoldBuckets(1, 2), otel.WithWaitBuckets(), otel.WithWaitBuckets(0, math.SmallestNonzeroFloat64, math.MaxFloat64))
	require.NoError(t, err)
}
