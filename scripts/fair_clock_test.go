// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const hour = 3600 * second

// Order: the server's clock is set back while sessions wait, and they go on waiting.
func TestTheOrderOutlastsAClockThatIsSetBack(t *testing.T) {
	t.Parallel()
	p := newLine(t)
	p.tries(holdOf("z"))
	p.joins(ours)
	p.clock++
	p.joins(theirs)
	p.clock -= hour
	p.joins(holdOf("c"))
	p.looks(we, ours)
	p.looks(they, theirs)
	require.Equal(t, ours, p.passes(holdOf("z")))
	require.Equal(t, theirs, p.passes(ours))
	require.Equal(t, holdOf("c"), p.passes(theirs))
	require.Equal(t, digits(noon+3), p.value()[4:20], "tokens grow all the same")
	require.Equal(t, digits(p.clock+life), p.value()[61:77], "and the hold is as long as it would be")
}

// P6: a session that died before the clock was set back does not count as living until it has
// caught up.
func TestALifeFromBeforeTheClockWasSetBackIsNotBelieved(t *testing.T) {
	t.Parallel()
	p := newLine(t)
	p.tries(holdOf("z"))
	p.joins(theirs) // which dies
	p.joins(ours)
	p.clock -= hour
	p.looks(we, ours)
	require.Equal(t, lived(p.clock+life, 3), p.said(we), "a heartbeat makes it credible again")
	require.Equal(t, ours, p.passes(holdOf("z")))
	require.Equal(t, []any{theirs}, p.inLine())
	waiters := p.waiters("0", 10)
	require.Equal(t, []any{they, digits(noon), int64(0), label}, waiters)
}

// Order: a session that was passed over as dead counts as living again, by a clock that was set back,
// or comes back before the clock has caught up. The memory of the search does not hide it.
func TestTheMemoryOfTheDeadIsNotBelievedWhereTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	for name, comesBack := range map[string]bool{"LivesByTheClock": false, "ComesBack": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newLine(t)
			p.tries(holdOf("z"))
			p.joins(holdOf("d")) // is dead, and the head
			p.clock += second
			p.joins(theirs)
			p.clock += life + second
			p.joins(ours)
			p.joins(holdOf("c"))
			require.Equal(t, ours, p.passes(holdOf("z")), "both are passed over")
			require.Equal(t, digits(p.clock)+theirs, p.said("from"))
			p.clock -= second + second/2 // theirs lives, the head does not
			if comesBack {
				p.looks(they, theirs)
				p.clock += 2 * second // the clock has caught up
				p.beat(session("c"), life, p.next())
			}
			require.Equal(t, theirs, p.passes(ours))
		})
	}
}

// P8: a renewal only adds, also by a clock that was set back.
func TestARenewalOfAFairLockDoesNotShortenItByTheClock(t *testing.T) {
	t.Parallel()
	p := newLine(t)
	p.holds(ours)
	p.clock -= hour
	require.Equal(t, int64(1), p.renews(digits(noon)+ours, time.Second))
	require.Equal(t, fairHeld(ours, noon, noon+lease*1000), p.value())
}
