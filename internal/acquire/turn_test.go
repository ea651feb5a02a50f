// SPDX-License-Identifier: Apache-2.0

package acquire

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// P6: a turn pays for its hand-off, and is shorter the longer its ticket waited.
func TestTurnShrinksWithTheWaitOfItsTicket(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for name, c := range map[string]struct{ cost, waited, want time.Duration }{
		"NotMeasured":    {0, time.Minute, maxTurn},
		"Near":           {ms / 4, 0, 10 * ms / 4},
		"Far":            {5 * ms, 0, maxTurn},
		"WaitedABit":     {5 * ms, longWait, maxTurn},
		"WaitedLong":     {ms, 2 * longWait, maxTurn / 8},
		"NearWaitedLong": {ms / 5, 2 * longWait, 2 * ms},
		"WaitedForever":  {ms, time.Minute, 2 * ms},
		"FarWaited":      {15 * ms, time.Minute, maxTurn},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := new(TurnPolicy)
			p.handOffCost.Store(int64(c.cost))
			require.Equal(t, c.want, p.length(c.waited).Round(time.Microsecond))
		})
	}
}

// P6: a turn has fewer uses the longer its ticket waited, and one at the least.
func TestTurnHasFewerUsesAfterALongWait(t *testing.T) {
	t.Parallel()
	const first, block = 5000, 1023
	for name, c := range map[string]struct {
		waited time.Duration
		want   uint64
	}{
		"AtOnce":        {0, block},
		"WaitedABit":    {longWaitForUses, block},
		"WaitedLong":    {2 * longWaitForUses, block / 2},
		"WaitedForever": {time.Hour, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, lastToken(first, first+block, c.waited)-first)
			require.EqualValues(t, first, lastToken(first, first, c.waited))
		})
	}
}

// P6: many tickets settle where their turns are the wait.
func TestTurnsOfManyTicketsConverge(t *testing.T) {
	t.Parallel()
	p := new(TurnPolicy)
	p.handOffCost.Store(int64(100 * time.Microsecond))
	for tickets, want := range map[int]time.Duration{100: 100 * time.Millisecond, 1000: 632 * time.Millisecond} {
		turns, wait := make([]time.Duration, tickets), time.Duration(0)
		for n := range 20 * tickets { // the oldest turn goes, the newest comes
			turn := p.length(wait)
			wait += turn - turns[n%tickets]
			turns[n%tickets] = turn
		}
		require.InDelta(t, want.Seconds(), wait.Seconds(), want.Seconds()/20, tickets)
	}
}
