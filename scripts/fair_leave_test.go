// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestALeaveWithNobodyInLineKeepsTheFloorForAnHour(t *testing.T) {
	t.Parallel()
	p := newLine(t)
	p.tries(ours)
	p.clock += second
	require.Equal(t, []any{int64(1), digits(p.clock), "", int64(0)}, p.leaves(ours))
	require.Equal(t, released(noon), p.value())
	p.requireLife(floorLife)
}

// P5.
func TestLeavingTwiceTouchesNobodyElse(t *testing.T) {
	t.Parallel()
	p := newLine(t)
	p.tries(ours)
	p.joins(nth("a", 5)) // of the same session
	p.joins(theirs)
	require.Equal(t, int64(1), p.leaves(ours)[0])
	for range 2 {
		unchanged := p.unchanged()
		require.Equal(t, []any{int64(0), digits(p.clock)}, p.leaves(ours))
		unchanged()
	}
}

func TestALeaveGivesTheLockToTheFirstAndTellsIt(t *testing.T) {
	t.Parallel()
	p := newLine(t)
	p.tries(holdOf("z"))
	p.clock++
	p.joins(ours)
	p.clock++
	p.joins(theirs)
	p.clock += second
	told, notTold := p.hears(we), p.hears(they)
	require.Equal(t, []any{int64(1), digits(p.clock), "", int64(0)}, p.leaves(holdOf("z")))
	require.Equal(t, fairHeld(ours, p.clock, noon+1+life), p.value(), "the rest of its life")
	p.requireLife(life*time.Microsecond + keeps)
	require.Equal(t, []any{theirs}, p.inLine())
	require.Equal(t, []string{grantOf(ours, p.clock, 1)}, told.heard())
	require.Empty(t, notTold.heard())

	require.Equal(t, theirs, p.passes(ours))
	require.Equal(t, []string{grantOf(theirs, p.clock+1, 2)}, notTold.heard(), "twice in a microsecond: a token each")
	require.Empty(t, p.inLine())
	require.Equal(t, "", p.passes(theirs))
	require.Equal(t, released(p.clock+1), p.value())
}

func TestAGrantToTheOwnSessionIsToldByTheReply(t *testing.T) {
	t.Parallel()
	p := newLine(t)
	p.tries(ours)
	next := nth("a", 5)
	p.joins(next)
	told := p.hears(we)
	require.Equal(t, []any{int64(1), digits(noon), grantOf(next, noon+1, 1), int64(0)}, p.leaves(ours))
	require.Empty(t, told.heard())
}

// No place is lost for a few milliseconds.
func TestAGrantLastsForASecondAtLeast(t *testing.T) {
	t.Parallel()
	p := newLine(t)
	p.tries(theirs)
	p.joins(ours)
	p.clock += life - 5
	told := p.hears(we)
	p.leaves(theirs)
	require.Equal(t, []string{grantOf(ours, p.clock, 1)}, told.heard())
	require.Equal(t, fairHeld(ours, p.clock, p.clock+second), p.value())
}

func TestLeavingTheLineTakesTheTicketAndNothingElse(t *testing.T) {
	t.Parallel()
	p := newLine(t)
	p.holds(theirs)
	p.joins(ours)
	p.joins(nth("a", 5))
	said, holder := p.said(we), p.value()
	require.Equal(t, []any{int64(2), digits(noon)}, p.leaves(ours))
	require.Equal(t, []any{nth("a", 5)}, p.inLine())
	require.Equal(t, said, p.said(we), "its sibling lives from it")
	require.Equal(t, holder, p.value())
}

func TestAStrangerLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(p *line){
		"Free":             func(*line) {},
		"Released":         func(p *line) { p.set(released(noon), time.Minute) },
		"Held":             func(p *line) { p.holds(theirs) },
		"HeldByOurSession": func(p *line) { p.holds(nth("a", 5)); p.joins(nth("a", 6)) },
		"Queued":           func(p *line) { p.holds(holdOf("c")); p.joins(theirs) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newLine(t)
			prepare(p)
			unchanged := p.unchanged()
			require.Equal(t, []any{int64(0), digits(noon)}, p.leaves(ours))
			require.Equal(t, int64(0), p.drops(ours))
			unchanged()
		})
	}
}

// P1: a hold whose grant ran out is passed on by whoever sees it first, and by nobody twice.
func TestALeaveOfAHoldThatHasEndedPassesItOn(t *testing.T) {
	t.Parallel()
	p := newLine(t)
	p.tries(ours)
	p.clock += lease * 1000
	p.joins(theirs) // sees that it is free
	require.Equal(t, fairHeld(theirs, p.clock, p.clock+lease*1000), p.value())
	unchanged := p.unchanged()
	require.Equal(t, int64(0), p.leaves(ours)[0])
	unchanged()

	p = newLine(t)
	p.set(fairHeld(ours, noon, noon+life+second), time.Minute)
	p.joins(theirs)
	p.clock += life + second
	p.looks(session("c")) // of nobody in line
	p.beat(they, life, p.next())
	require.Equal(t, fairFree(noon), p.value(), "nobody lived")
	p.looks(they, theirs)
	require.Equal(t, theirs, p.value()[20:61])
}

func TestADroppedLockIsFreeForTheLine(t *testing.T) {
	t.Parallel()
	p := newLine(t)
	p.tries(ours)
	p.joins(theirs)
	require.Equal(t, int64(1), p.drops(ours))
	require.Equal(t, fairFree(noon), p.value())
	p.requireLife(keeps)
	require.Equal(t, []any{theirs}, p.inLine())
	require.Equal(t, int64(0), p.drops(ours), "sent twice")
	require.Equal(t, int64(0), p.leaves(ours)[0])
	require.Equal(t, int64(0), p.tries(ours)[0], "nobody takes it past the line")
	require.Equal(t, fairHeld(theirs, noon+1, noon+life), p.value())
}
