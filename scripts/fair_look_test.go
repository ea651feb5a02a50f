// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestALookIsAHeartbeatAndTellsThePlaces(t *testing.T) {
	t.Parallel()
	p := newLine(t)
	p.holds(theirs)
	p.joins(nth("a", 1))
	p.joins(nth("a", 3))
	holder := p.value()
	p.clock += second
	require.Equal(t, []any{int64(1), int64(lease*1000 - second), int64(0), "", "101", digits(p.clock)},
		p.looks(we, nth("a", 1), nth("a", 2), nth("a", 3)))
	require.Equal(t, lived(p.clock+life, 3), p.said(we))
	require.Equal(t, holder, p.value())
	require.Equal(t, []any{nth("a", 1), nth("a", 3)}, p.inLine(), "a look makes no ticket")
	p.requireEnds()
}

// P6: a holder's death is found by a look.
func TestALookHandsALockOnWhoseHolderDied(t *testing.T) {
	t.Parallel()
	p := newLine(t)
	p.set(fairHeld(holdOf("z"), noon, noon+second), time.Minute)
	p.joins(ours)
	p.joins(theirs)
	p.clock += second - 1
	require.Equal(t, int64(1), p.looks(they, theirs)[1], "not before its end")
	p.clock++
	told := p.hears(we)
	require.Equal(t, []any{int64(1), int64(0), int64(0), "", "1", digits(p.clock)}, p.looks(they, theirs))
	require.Equal(t, fairHeld(ours, p.clock, noon+life), p.value())
	require.Equal(t, []string{grantOf(ours, p.clock, 1)}, told.heard())
}

// P2: a grant that is told by an answer counts from the sending of what is answered.
func TestALookThatGetsTheLockHasItForAWholeLife(t *testing.T) {
	t.Parallel()
	p := newLine(t)
	p.set(fairHeld(holdOf("z"), noon, noon+second), time.Minute)
	p.joins(ours)
	p.clock += second
	told := p.hears(we)
	require.Equal(t, []any{int64(1), int64(life), int64(0), grantOf(ours, p.clock, 2), "1", digits(p.clock)}, p.looks(we, ours))
	require.Equal(t, fairHeld(ours, p.clock, p.clock+life), p.value())
	require.Empty(t, told.heard())

	p.set(fairHeld(ours, noon, p.clock+longestLife), time.Minute)
	require.Equal(t, int64(longestLife), p.looks(we, ours)[1], "what was longer stays longer")
	require.Equal(t, fairHeld(ours, noon, p.clock+longestLife), p.value())
}

// P6: a message that was lost is made up for, also where the grant has ended unread.
func TestALookFindsAGrantThatWasNotHeard(t *testing.T) {
	t.Parallel()
	for name, later := range map[string]int64{"InTime": second, "Ended": life + second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newLine(t)
			p.tries(theirs)
			p.joins(ours)
			p.joins(nth("a", 5))
			p.leaves(theirs)
			p.clock += later
			require.Equal(t, []any{int64(1), int64(life), int64(0), grantOf(ours, noon+1, 3), "01", digits(p.clock)}, p.looks(we, ours, nth("a", 5)))
			require.Equal(t, fairHeld(ours, noon+1, p.clock+life), p.value(), "the same token")
		})
	}
}

// P8: a hold that nobody remembers must not live as long as its session.
func TestALookDoesNotLengthenAHoldThatItDoesNotAskFor(t *testing.T) {
	t.Parallel()
	p := newLine(t)
	p.tries(ours)
	p.joins(nth("a", 5))
	holder := p.value()
	p.clock += second
	require.Equal(t, []any{int64(1), int64(lease*1000 - second), int64(0), unpaid(ours, noon), "1", digits(p.clock)}, p.looks(we, nth("a", 5)))
	require.Equal(t, holder, p.value())

	p.clock = noon + lease*1000
	require.Equal(t, grantOf(nth("a", 5), p.clock, p.beats+1), p.looks(we, nth("a", 5))[3], "it ends, and the next has it")
}

func TestALookThatIsGrantedWhatItDoesNotAskForNamesTheHeartbeat(t *testing.T) {
	t.Parallel()
	p := newLine(t)
	p.set(fairHeld(holdOf("z"), noon, noon+second), time.Minute)
	p.joins(ours)
	p.clock += second
	require.Equal(t, []any{int64(1), int64(0), int64(0), grantOf(ours, p.clock, 2), "", digits(p.clock)}, p.looks(we))
	require.Equal(t, fairHeld(ours, p.clock, p.clock+life), p.value())
}

func TestALookOfNobodyInLineCreatesNoHold(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]string{"Free": "", "Released": released(noon), "Ended": fairHeld(theirs, noon-second, noon)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newLine(t)
			if before != "" {
				p.set(before, time.Minute)
			}
			require.Equal(t, []any{int64(1), int64(0), int64(0), "", "0", digits(noon)}, p.looks(we, ours))
			require.Equal(t, before, p.value())
			require.Empty(t, p.inLine())
		})
	}
}

// P2: whatever comes late, twice or out of order only adds.
func TestHeartbeatsOnlyAdd(t *testing.T) {
	t.Parallel()
	p := newLine(t)
	p.beat(we, longestLife, beatNumber(7))
	require.Equal(t, lived(noon+longestLife, 7), p.said(we))
	p.clock += second
	p.beat(we, life, beatNumber(8))
	require.Equal(t, lived(noon+longestLife, 8), p.said(we), "a shorter one")
	p.clock += second
	p.beat(we, life, beatNumber(3))
	require.Equal(t, lived(noon+longestLife, 8), p.said(we), "an earlier one, late")
	p.beat(we, longestLife, beatNumber(8))
	require.Equal(t, lived(p.clock+longestLife, 8), p.said(we), "the same, twice")
	p.requireEnds()
}

// P2: numbers of one process rise; those of its copy, restored from a snapshot, are its own.
func TestTheNumberOfAHeartbeatIsComparedWhole(t *testing.T) {
	t.Parallel()
	p := newLine(t)
	p.beat(we, life, "000000000009zzzzzzzz")
	p.beat(we, life, "000000000010aaaaaaaa")
	require.Equal(t, "000000000010aaaaaaaa", p.said(we)[16:36])
	p.beat(we, life, "000000000010bbbbbbbb")
	require.Equal(t, "000000000010bbbbbbbb", p.said(we)[16:36])
}
