// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Order: the server's clock is set back while sessions wait, and they go on waiting, in both lines.
func TestTheOrderOfBothLinesOutlastsAClockThatIsSetBack(t *testing.T) {
	t.Parallel()
	p := newRWLock(t)
	p.has(holdOf("z"), reads)
	p.queues(holdOf("w"), writes)
	p.clock++
	p.queues(ours, reads)
	p.clock -= hour
	p.queues(holdOf("x"), writes)
	p.queues(theirs, reads)
	require.Equal(t, []any{holdOf("w"), ours, holdOf("x"), theirs}, p.inLines())
	p.looks(session("w"), holdOf("w"))
	p.looks(we, ours)
	p.leaves(holdOf("w"))
	p.requireHave(reads, holdOf("z"), ours)
	require.Equal(t, noon+1, p.floor(), "tokens grow all the same")
	require.Equal(t, p.clock+life, p.until()[ours], "and the hold is as long as it would be")
	p.leaves(holdOf("z"))
	p.leaves(ours)
	p.requireHave(writes, holdOf("x"))
	require.Equal(t, noon+2, p.floor())
	p.leaves(holdOf("x"))
	p.requireHave(reads, theirs)
	p.leaves(theirs)
	require.Equal(t, released(noon+3), p.value())
}

// P6: a writer that died before the clock was set back closes no door until the clock has caught up.
func TestAWritersLifeFromBeforeTheClockWasSetBackIsNotBelieved(t *testing.T) {
	t.Parallel()
	p := newRWLock(t)
	p.has(ours, reads)
	p.queues(holdOf("w"), writes)
	p.clock -= hour
	require.True(t, p.isOpen(ours))
	p.has(theirs, reads)
	p.looks(session("w"), holdOf("w"))
	require.False(t, p.isOpen(ours), "a heartbeat makes it credible again")
}

// P1: who has the lock has it for longer, where the clock is set back, and nobody for shorter.
func TestAClockThatIsSetBackEndsNoHold(t *testing.T) {
	t.Parallel()
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newRWLock(t)
			p.has(ours, mode)
			p.clock -= hour
			p.queues(theirs, writes)
			p.looks(they, theirs)
			require.Equal(t, int64(1), p.renews(ours, 1000))
			require.Equal(t, "2", p.looks(we, ours)[4])
			require.Equal(t, map[string]int64{ours: noon + lease*1000}, p.until())
		})
	}
}
