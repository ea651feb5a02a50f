// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

func TestAFreeFairLockIsTakenForItsLease(t *testing.T) {
	t.Parallel()
	for name, enter := range map[string]func(p *line) []any{
		"Try":  func(p *line) []any { return p.tries(ours) },
		"Join": func(p *line) []any { return p.joins(ours) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newLine(t)
			require.Equal(t, []any{int64(1), digits(noon), digits(noon)}, enter(p))
			require.Equal(t, fairHeld(ours, noon, noon+lease*1000), p.value())
			p.requireLife(lease*time.Millisecond + keeps)
			require.Greater(t, p.left(), lease*time.Millisecond, "the key outlives the hold")
			require.Empty(t, p.inLine())
			require.Empty(t, p.said(we), "a lock that is free costs no heartbeat")
		})
	}
}

// P3.
func TestTokensOfAFairLockGrowWhateverTheClockSays(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]string{
		"Released":         released(noon + second),
		"HoldThatEnded":    fairHeld(theirs, noon+second, noon-1),
		"FreeForTheQueued": fairFree(noon + second),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newLine(t)
			p.set(before, time.Minute)
			require.Equal(t, []any{int64(1), digits(noon + second + 1), digits(noon)}, p.tries(ours))
			require.Equal(t, released(noon+second+1), func() string { p.leaves(ours); return p.value() }())
		})
	}
}

func TestATryOfAHeldFairLockWritesNothing(t *testing.T) {
	t.Parallel()
	p := newLine(t)
	p.holds(theirs)
	p.clock += second
	unchanged := p.unchanged()
	require.Equal(t, []any{int64(0), int64(lease*1000 - second), int64(0), digits(noon + second)}, p.tries(ours))
	unchanged()
}

func TestAWaiterGetsATicketAndALife(t *testing.T) {
	t.Parallel()
	p := newLine(t)
	p.holds(theirs)
	p.clock += 7
	require.Equal(t, []any{int64(0), int64(lease*1000 - 7), int64(0), digits(noon + 7)}, p.joins(ours))
	require.Equal(t, []any{ours}, p.inLine())
	require.Equal(t, noon+7, p.ticket(ours))
	require.Equal(t, lived(noon+7+life, 1), p.said(we))
	require.Equal(t, fairHeld(theirs, noon, noon+lease*1000), p.value())
	p.requireEnds()
}

// P5.
func TestJoiningTwiceKeepsTheTicketAndLengthensTheLife(t *testing.T) {
	t.Parallel()
	p := newLine(t)
	p.holds(holdOf("c"))
	p.joins(ours)
	p.joins(theirs)
	p.clock += second
	p.joins(ours)
	require.Equal(t, []any{ours, theirs}, p.inLine())
	require.Equal(t, noon, p.ticket(ours))
	require.Equal(t, lived(noon+second+life, 3), p.said(we))
}

// P5: the answer to the second counts from its own sending.
func TestEnteringTwiceTakesTheLockOnceAndLengthensIt(t *testing.T) {
	t.Parallel()
	p := newLine(t)
	p.joins(ours)
	for name, enter := range map[string]func() []any{"Join": func() []any { return p.joins(ours) }, "Try": func() []any { return p.tries(ours) }} {
		p.clock += second
		require.Equal(t, []any{int64(1), digits(noon), digits(p.clock)}, enter(), name)
		require.Equal(t, fairHeld(ours, noon, p.clock+lease*1000), p.value())
		require.Empty(t, p.inLine())
	}
	// A longer hold is not made shorter.
	p.set(fairHeld(ours, noon, p.clock+2*lease*1000), time.Minute)
	p.joins(ours)
	require.Equal(t, fairHeld(ours, noon, p.clock+2*lease*1000), p.value())
	p.requireLife(2*lease*time.Millisecond + keeps)
}

// P5: nobody was let in meanwhile.
func TestEnteringAgainRevivesAHoldThatEndedUnread(t *testing.T) {
	t.Parallel()
	p := newLine(t)
	p.joins(ours)
	p.clock += lease*1000 + second
	require.Equal(t, []any{int64(1), digits(noon), digits(p.clock)}, p.joins(ours))
	require.Equal(t, fairHeld(ours, noon, p.clock+lease*1000), p.value())
}

// P4.
func TestALateEnterWritesNothing(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(p *line){
		"Free":   func(*line) {},
		"Held":   func(p *line) { p.holds(theirs) },
		"Ours":   func(p *line) { p.holds(ours) },
		"Queued": func(p *line) { p.holds(holdOf("c")); p.joins(theirs) },
	} {
		for _, queues := range []string{"0", "1"} {
			t.Run(name+queues, func(t *testing.T) {
				t.Parallel()
				p := newLine(t)
				prepare(p)
				args := p.enterArgs(ours, queues, p.next())
				p.clock++
				unchanged := p.unchanged()
				require.Equal(t, []any{int64(-1), digits(noon + 1)}, p.ask(scripts.FairEnter, p.keys(), args...))
				unchanged()
			})
		}
	}
}

// P1, order: the lock of a holder that died goes to the first in line, also where somebody else
// comes first to see it.
func TestNobodyTakesAFreeLockPastTheLine(t *testing.T) {
	t.Parallel()
	for name, enter := range map[string]func(p *line) []any{
		"Try":  func(p *line) []any { return p.tries(nth("c", 1)) },
		"Join": func(p *line) []any { return p.joins(nth("c", 1)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newLine(t)
			p.set(fairHeld(holdOf("z"), noon, noon+second), time.Minute)
			p.joins(ours)
			p.joins(theirs)
			p.clock += second
			told, notTold := p.hears(we), p.hears(they)
			require.Equal(t, []any{int64(0), int64(0), int64(0), digits(p.clock)}, enter(p))
			require.Equal(t, fairHeld(ours, p.clock, noon+life), p.value())
			require.Equal(t, []string{grantOf(ours, p.clock, 1)}, told.heard())
			require.Empty(t, notTold.heard())
			require.Equal(t, theirs, p.inLine()[0])
			require.Equal(t, name == "Join", len(p.inLine()) == 2, "who joins has a ticket, who tries has none")
		})
	}
}

// P1: a hold counts to its last microsecond.
func TestAFairLockIsHandedOnWhenItEndsAndNotBefore(t *testing.T) {
	t.Parallel()
	p := newLine(t)
	p.tries(holdOf("z"))
	p.clock += lease*1000 - 1
	p.joins(ours)
	require.Equal(t, []any{int64(0), int64(1), int64(0), digits(p.clock)}, p.joins(theirs))
	require.Equal(t, "", p.looks(we, ours)[3])
	require.Equal(t, holdOf("z"), p.value()[20:61])
	p.clock++
	p.joins(theirs)
	require.Equal(t, ours, p.value()[20:61])
}

func TestOneThatJoinsAsTheFirstOfAFreeLockHasItForItsLease(t *testing.T) {
	t.Parallel()
	p := newLine(t)
	p.set(fairHeld(holdOf("z"), noon, noon+second), time.Minute)
	p.joins(ours)
	p.clock += second
	told := p.hears(we)
	require.Equal(t, []any{int64(1), digits(p.clock), digits(p.clock)}, p.joins(ours))
	require.Equal(t, fairHeld(ours, p.clock, p.clock+lease*1000), p.value())
	require.Empty(t, p.inLine())
	require.Empty(t, told.heard(), "the reply tells it")
}

// P6: the reply has no room for it, so a look is due at once.
func TestAGrantToAnotherAttemptOfTheSessionIsNotKeptSecret(t *testing.T) {
	t.Parallel()
	for name, enter := range map[string]func(p *line) []any{
		"Try":  func(p *line) []any { return p.tries(nth("a", 2)) },
		"Join": func(p *line) []any { return p.joins(nth("a", 2)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newLine(t)
			p.set(fairHeld(holdOf("z"), noon, noon+second), time.Minute)
			first := nth("a", 1)
			p.joins(first)
			p.clock += second
			reply := enter(p)
			require.Equal(t, []any{int64(0), int64(0), int64(1), digits(p.clock)}, reply)
			require.Equal(t, first, p.value()[20:61])
			require.Equal(t, grantOf(first, p.clock, p.beats+1), p.looks(we, first)[3])
		})
	}
}

func TestATryGoesBeforeTheDeadOnly(t *testing.T) {
	t.Parallel()
	p := newLine(t)
	p.set(fairHeld(holdOf("z"), noon, noon+second), time.Minute)
	p.joins(theirs)
	p.clock += life
	require.Equal(t, []any{int64(1), digits(p.clock), digits(p.clock)}, p.tries(ours))
	require.Equal(t, fairHeld(ours, p.clock, p.clock+lease*1000), p.value())
	require.Equal(t, []any{theirs}, p.inLine(), "its place is kept")
}

// P4: no key without an end, whatever the enter carries.
func TestALineHasAnEndFromItsFirstTicketOn(t *testing.T) {
	t.Parallel()
	p := newLine(t)
	p.holds(theirs)
	p.beat(we, life, p.next())
	reply := p.ask(scripts.FairEnter, p.keys(), p.enterArgs(ours, "1", "")...)
	require.Equal(t, int64(0), reply[2])
	require.Equal(t, []any{ours}, p.inLine())
	require.Equal(t, lived(noon+life, 1), p.said(we))
	p.requireEnds()
}

// A heartbeat was left out, since one was answered a moment ago. The server lost it.
func TestATicketOfASessionThatDoesNotLiveAsksForALook(t *testing.T) {
	t.Parallel()
	p := newLine(t)
	p.holds(theirs)
	require.Equal(t, int64(1), p.ask(scripts.FairEnter, p.keys(), p.enterArgs(ours, "1", "")...)[2])
}

func TestTicketsRiseWhateverTheClockSays(t *testing.T) {
	t.Parallel()
	p := newLine(t)
	p.holds(holdOf("z"))
	var want []any
	for n := range 20 {
		hold := nth("a", 100-n) // the other way round as texts
		want = append(want, hold)
		switch n % 4 {
		case 1: // the clock stands
		case 2:
			p.clock -= 3600 * second
		default:
			p.clock += second
		}
		p.joins(hold)
	}
	require.Equal(t, want, p.inLine())
}

func TestALabelMayBeLongOrMissing(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "x", "0123456789012345678901234567890123456789012345678901234567890123"} {
		p := newLine(t)
		args := p.enterArgs(ours, "1", p.next())
		args[6] = name
		p.ask(scripts.FairEnter, p.keys(), args...)
		require.Equal(t, name, p.value()[83:])
		require.Equal(t, int64(0), p.tries(theirs)[0])
		require.Equal(t, int64(1), p.leaves(ours)[0])
	}
}
