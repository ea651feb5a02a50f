// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Permits that are acquired and never released do not pile up, though there is no waiter and the
// semaphore is never full.
func TestEndedHoldsDoNotPileUp(t *testing.T) {
	t.Parallel()
	const n = 1500
	p := newPermits(t, 1_000_000)
	p.many(n, noon-1)
	p.has(wish(ours, 2))
	require.Equal(t, int64(n-1000+2), p.score("used"))
	require.Equal(t, []any{int64(0), int64(1_000_000), int64(2)}, p.available())
	require.Equal(t, []any{int64(1), digits(noon), "", int64(0)}, p.leaves(wish(ours, 2)))
	require.Zero(t, p.score("used"))
}

// P6: what Available costs the server grows with the holds that have ended, and not with their
// square.
func TestAvailableCostsAsMuchForEachEndedHold(t *testing.T) {
	t.Parallel()
	const few, many = 10_000, 100_000
	p := newPermitsAt(t, many)
	least := func(n int) time.Duration {
		p.server.MustDo(t, "DEL", p.key)
		p.many(n, noon)
		least := time.Hour
		for range 3 {
			before := p.server.CommandStats()["eval"].Time
			require.Equal(t, []any{int64(0), int64(many), int64(0)}, p.available())
			least = min(least, p.server.CommandStats()["eval"].Time-before)
		}
		return least
	}
	// Ten times the holds cost ten times as much; pages that count from the first hold cost a
	// hundred times as much.
	require.Less(t, least(many), 45*least(few))
}
