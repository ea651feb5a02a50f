// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Permits that are acquired and never released do not pile up, though there is no waiter and the
// semaphore is never full.
func TestEndedHoldsDoNotPileUp(t *testing.T) {
	t.Parallel()
	const n = 1500
	p := newPermits(t, 1_000_000)
	p.many(n, noon-1)
	p.has(permitRequest(ours, 2))
	require.Equal(t, int64(n-1000+2), p.score("used"))
	require.Equal(t, []any{int64(1), int64(1_000_000), int64(2)}, p.available())
	require.Equal(t, []any{int64(1), digits(noon), "", int64(0)}, p.leaves(permitRequest(ours, 2)))
	require.Zero(t, p.score("used"))
}
