// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

// modes are the modes with their names in tests.
var modes = map[string]string{"Reader": reads, "Writer": writes}

func TestAFreeReadWriteLockIsTakenForItsLease(t *testing.T) {
	t.Parallel()
	for name, mode := range modes {
		for verb, enter := range map[string]func(p *rwlock) []any{
			"Try":  func(p *rwlock) []any { return p.tries(ours, mode) },
			"Join": func(p *rwlock) []any { return p.joins(ours, mode) },
		} {
			t.Run(name+verb, func(t *testing.T) {
				t.Parallel()
				p := newRWLock(t)
				require.Equal(t, []any{int64(1), digits(noon), digits(noon)}, enter(p))
				phase := map[string]int64{reads: 0, writes: 1}[mode]
				require.Equal(t, map[string]int64{"sb1w": -noon, "phase": phase, ours + label: noon + lease*1000}, p.scores(p.key))
				p.requireLife(lease*time.Millisecond + keeps)
				require.Greater(t, p.left(), lease*time.Millisecond, "the key outlives the hold")
				require.Empty(t, p.inLines())
				require.Empty(t, p.said(we), "a lock that is free costs no heartbeat")
			})
		}
	}
}

// P1.
func TestReadersShareTheLockAndWritersDoNot(t *testing.T) {
	t.Parallel()
	p := newRWLock(t)
	p.has(ours, reads)
	p.has(nth("a", 5), reads)
	require.Equal(t, []any{int64(1), digits(noon + 2), digits(noon)}, p.joins(theirs, reads), "a token each")
	require.Equal(t, int64(0), p.tries(holdOf("w"), writes)[0])
	p.requireHave(reads, ours, nth("a", 5), theirs)
	for _, hold := range []string{ours, nth("a", 5), theirs} {
		p.leaves(hold)
	}
	p.has(holdOf("w"), writes)
	require.Equal(t, int64(0), p.tries(ours, reads)[0])
	require.Equal(t, int64(0), p.tries(theirs, writes)[0])
	p.requireHave(writes, holdOf("w"))
}

// P3.
func TestTokensOfAReadWriteLockGrowWhateverTheClockSays(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(p *rwlock){
		"Released": func(p *rwlock) { p.set(released(noon), time.Minute) },
		"Left":     func(p *rwlock) { p.has(theirs, writes); p.leaves(theirs) },
		"Shared":   func(p *rwlock) { p.has(theirs, reads) },
		"Reentrant": func(p *rwlock) {
			p.run(scripts.ReentrantAcquire, claimOf(theirs), lease, digits(p.clock), "")
			p.run(scripts.ReentrantRelease, heldBy(theirs, noon, ""), digits(noon), "PUBLISH", p.channel, keepMS)
		},
		"OnlyTheDeadQueue": func(p *rwlock) {
			p.has(theirs, writes)
			p.queues(holdOf("d"), writes)
			p.clock += life
			p.leaves(theirs)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newRWLock(t)
			before(p)
			p.clock = noon - hour
			floor := p.floor()
			require.GreaterOrEqual(t, floor, noon)
			require.Equal(t, []any{int64(1), digits(floor + 1), digits(p.clock)}, p.tries(ours, reads))
			require.Equal(t, []any{int64(1), digits(floor + 2), digits(p.clock)}, p.tries(nth("a", 5), reads))
			require.Equal(t, floor+2, p.floor())
		})
	}
}

func TestATryOfAHeldReadWriteLockWritesNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ held, tries string }{
		"ReaderAtWriter": {writes, reads}, "WriterAtWriter": {writes, writes}, "WriterAtReader": {reads, writes},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newRWLock(t)
			p.has(theirs, c.held)
			p.clock += second
			unchanged := p.unchanged()
			require.Equal(t, []any{int64(0), int64(lease*1000 - second), int64(0), digits(noon + second)}, p.tries(ours, c.tries))
			unchanged()
		})
	}
}

func TestAWaiterStandsInTheLineOfItsMode(t *testing.T) {
	t.Parallel()
	p := newRWLock(t)
	p.has(theirs, writes)
	p.clock += 7
	require.Equal(t, []any{int64(0), int64(lease*1000 - 7), int64(0), digits(noon + 7)}, p.joins(ours, reads))
	p.queues(nth("a", 5), writes)
	require.Equal(t, map[string]int64{ours: noon + 7}, p.scores(p.readers))
	require.Equal(t, map[string]int64{nth("a", 5): noon + 8}, p.scores(p.tickets), "tickets of both lines compare")
	require.Equal(t, lived(noon+7+life, 2), p.said(we))
	p.requireHave(writes, theirs)
	p.requireEnds()
}

func TestTicketsOfBothLinesRiseWhateverTheClockSays(t *testing.T) {
	t.Parallel()
	p := newRWLock(t)
	p.has(holdOf("z"), writes)
	var want []any
	for n := range 20 {
		hold := nth("a", 100-n) // the other way round as texts
		want = append(want, hold)
		switch n % 4 {
		case 1: // the clock stands
		case 2:
			p.clock -= hour
		default:
			p.clock += second
		}
		p.queues(hold, []string{reads, writes}[n/2%2])
	}
	require.Equal(t, want, p.inLines())
}

// P5.
func TestJoiningAReadWriteLockTwiceKeepsTheTicket(t *testing.T) {
	t.Parallel()
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newRWLock(t)
			p.has(holdOf("z"), writes)
			p.queues(ours, mode)
			p.queues(theirs, mode)
			p.clock += second
			p.queues(ours, mode)
			require.Equal(t, []any{ours, theirs}, p.inLines())
			require.Equal(t, lived(noon+second+life, 3), p.said(we))
		})
	}
}

// P5: the answer to the second counts from its own sending; its token stays.
func TestEnteringAReadWriteLockTwiceTakesItOnceAndLengthensIt(t *testing.T) {
	t.Parallel()
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newRWLock(t)
			p.joins(ours, mode)
			for _, enter := range []func(string, string) []any{p.joins, p.tries} {
				p.clock += second
				require.Equal(t, []any{int64(1), digits(noon), digits(p.clock)}, enter(ours, mode))
				require.Equal(t, map[string]int64{ours: p.clock + lease*1000}, p.until())
				p.requireHave(mode, ours)
				require.Equal(t, noon, p.floor())
				require.Empty(t, p.inLines())
			}
			// A longer hold is not made shorter.
			p.renews(ours, 2*lease)
			p.joins(ours, mode)
			require.Equal(t, map[string]int64{ours: p.clock + 2*lease*1000}, p.until())
			p.requireLife(2*lease*time.Millisecond + keeps)
		})
	}
}

// P5: nobody was let in meanwhile.
func TestEnteringAgainRevivesAReadersHoldThatEndedUnread(t *testing.T) {
	t.Parallel()
	p := newRWLock(t)
	p.joins(ours, reads)
	p.clock += lease*1000 + second
	require.Equal(t, int64(1), p.joins(ours, reads)[0])
	require.Equal(t, map[string]int64{ours: p.clock + lease*1000}, p.until())
}

// P4.
func TestALateEnterOfAReadWriteLockWritesNothing(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(p *rwlock){
		"Free":   func(*rwlock) {},
		"Held":   func(p *rwlock) { p.has(theirs, reads) },
		"Ours":   func(p *rwlock) { p.has(ours, reads) },
		"Queued": func(p *rwlock) { p.has(holdOf("c"), reads); p.queues(theirs, writes) },
	} {
		for _, queues := range []string{"0", "1"} {
			t.Run(name+queues, func(t *testing.T) {
				t.Parallel()
				p := newRWLock(t)
				prepare(p)
				args := p.enterArgs(ours, reads, queues, p.next())
				p.clock++
				unchanged := p.unchanged()
				require.Equal(t, []any{int64(-1), digits(noon + 1)}, p.ask(scripts.RWLockEnter, p.keys(), args...))
				unchanged()
			})
		}
	}
}

// P6: the reply has no room for it, so its own session is told by message, as others are.
func TestAnEnterTellsItsOwnSessionWhomItLetsIn(t *testing.T) {
	t.Parallel()
	for name, enter := range map[string]func(p *rwlock) []any{
		"Try":  func(p *rwlock) []any { return p.tries(nth("a", 9), writes) },
		"Join": func(p *rwlock) []any { return p.joins(nth("a", 9), writes) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newRWLock(t)
			p.has(holdOf("z"), writes)
			p.queues(nth("a", 1), reads)
			p.queues(theirs, reads)
			p.queues(nth("a", 2), reads)
			p.drops(holdOf("z"))
			told, others := p.hears(we), p.hears(they)
			require.Equal(t, int64(0), enter(p)[0])
			paid := map[string]int{"Try": 3, "Join": 4}[name]
			require.Equal(t, []string{grantOf(nth("a", 1), noon+1, paid) + grantOf(nth("a", 2), noon+3, paid)}, told.heard(), "all of a session in one")
			require.Equal(t, []string{grantOf(theirs, noon+2, 2)}, others.heard())
			p.requireHave(reads, nth("a", 1), nth("a", 2), theirs)
		})
	}
}

func TestOneThatJoinsAndIsLetInAtOnceHasTheLockForItsLease(t *testing.T) {
	t.Parallel()
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newRWLock(t)
			p.has(holdOf("z"), writes)
			p.queues(ours, mode)
			p.drops(holdOf("z"))
			told := p.hears(we)
			require.Equal(t, []any{int64(1), digits(noon + 1), digits(noon)}, p.joins(ours, mode))
			require.Equal(t, map[string]int64{ours: noon + lease*1000}, p.until())
			p.requireLife(lease*time.Millisecond + keeps)
			require.Empty(t, p.inLines())
			require.Empty(t, told.heard(), "the reply tells it")
		})
	}
}

func TestATryGoesBeforeTheDeadOfBothLinesOnly(t *testing.T) {
	t.Parallel()
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newRWLock(t)
			p.has(holdOf("z"), writes)
			p.queues(holdOf("c"), writes)
			p.queues(theirs, reads)
			p.clock += life
			p.drops(holdOf("z"))
			require.Equal(t, []any{int64(1), digits(p.clock), digits(p.clock)}, p.tries(ours, mode))
			p.requireHave(mode, ours)
			require.Equal(t, []any{holdOf("c"), theirs}, p.inLines(), "they keep their places")
		})
	}
}

// A heartbeat was left out, since one was answered a moment ago, but the session died: a look is due, and others are
// let in all the same.
func TestAReadersTicketWithoutALifeAsksForALook(t *testing.T) {
	t.Parallel()
	p := newRWLock(t)
	p.has(holdOf("z"), writes)
	p.queues(theirs, writes)
	p.drops(holdOf("z"))
	p.beat(we, 1, p.next())
	p.clock++
	require.Equal(t, []any{int64(0), int64(life - 1), int64(1), digits(noon + 1)}, p.ask(scripts.RWLockEnter, p.keys(), p.enterArgs(ours, reads, "1", "")...))
	p.requireHave(writes, theirs)
	require.Equal(t, []any{ours}, p.inLines())
	p.requireEnds()
}

// P8: whoever comes with a short lease does not shorten the life of a key that has a long one.
func TestALongHoldIsNotShortenedByOthers(t *testing.T) {
	t.Parallel()
	const long = 10 * time.Hour
	p := newRWLock(t)
	args := p.enterArgs(ours, reads, "0", "")
	args[1] = long.Microseconds()
	p.ask(scripts.RWLockEnter, p.keys(), args...)
	p.has(theirs, reads)
	p.joins(theirs, reads)
	p.renews(theirs, 1000)
	p.queues(holdOf("w"), writes)
	p.looks(they, theirs)
	p.leaves(theirs)
	p.clock += lease * 1000
	p.looks(session("w"), holdOf("w"))
	p.requireLife(long + keeps)
	require.Equal(t, map[string]int64{ours: noon + long.Microseconds()}, p.until())
}
