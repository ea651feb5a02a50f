// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestALookAtAReadWriteLockIsAHeartbeatAndTellsThePlaces(t *testing.T) {
	t.Parallel()
	p := newRWLock(t)
	p.has(theirs, writes)
	p.queues(nth("a", 1), reads)
	p.queues(nth("a", 3), writes)
	for _, line := range []string{p.tickets, p.readers, p.lives} {
		p.server.MustDo(t, "PEXPIRE", line, 1000*60)
	}
	p.clock += second
	require.Equal(t, []any{int64(1), int64(lease*1000 - second), int64(0), "", "101", digits(p.clock)},
		p.looks(we, nth("a", 1), nth("a", 2), nth("a", 3)))
	require.Equal(t, lived(p.clock+life, 3), p.said(we))
	require.Equal(t, map[string]int64{theirs: noon + lease*1000}, p.until())
	require.Equal(t, []any{nth("a", 1), nth("a", 3)}, p.inLines(), "a look makes no ticket")
	p.requireEnds()
}

// P6: a holder's death is found by a look, and not before its end.
func TestALookHandsAReadWriteLockOnWhoseHolderDied(t *testing.T) {
	t.Parallel()
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newRWLock(t)
			p.has(holdOf("z"), mode)
			p.queues(ours, writes)
			p.queues(theirs, writes)
			p.clock += lease*1000 - 1
			p.beat(we, life, p.next())
			require.Equal(t, int64(1), p.looks(they, theirs)[1])
			p.requireHave(mode, holdOf("z"))
			p.clock++
			told := p.hears(we)
			require.Equal(t, []any{int64(1), int64(life - 1), int64(0), "", "1", digits(p.clock)}, p.looks(they, theirs))
			require.Equal(t, map[string]int64{ours: p.clock - 1 + life}, p.until())
			require.Equal(t, []string{grantOf(ours, p.clock, 3)}, told.heard())
		})
	}
}

// P2: a grant that a look makes to its own session is paid by the look's own heartbeat.
func TestALookThatLetsItsOwnSessionInNamesItsHeartbeat(t *testing.T) {
	t.Parallel()
	p := newRWLock(t)
	p.has(holdOf("z"), writes)
	p.queues(ours, reads)
	p.queues(nth("a", 5), reads) // not listed
	p.queues(theirs, reads)
	p.drops(holdOf("z"))
	told, others := p.hears(we), p.hears(they)
	grants := grantOf(ours, noon+1, 4) + grantOf(nth("a", 5), noon+2, 4)
	require.Equal(t, []any{int64(1), int64(life), int64(0), grants, "1", digits(noon)}, p.looks(we, ours))
	require.Empty(t, told.heard())
	require.Equal(t, []string{grantOf(theirs, noon+3, 3)}, others.heard())
}

// P6: a message that was lost is made up for, also where the grant has ended unread. Its token is the last one given: not before its own.
func TestALookFindsGrantsThatWereNotHeard(t *testing.T) {
	t.Parallel()
	for name, later := range map[string]int64{"InTime": second, "Ended": life + second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newRWLock(t)
			p.has(theirs, writes)
			p.queues(ours, reads)
			p.queues(nth("a", 5), reads)
			p.queues(nth("a", 6), writes)
			p.leaves(theirs)
			p.clock += later
			grants := grantOf(ours, noon+2, 4) + grantOf(nth("a", 5), noon+2, 4)
			require.Equal(t, []any{int64(1), int64(life), int64(0), grants, "221", digits(p.clock)}, p.looks(we, ours, nth("a", 5), nth("a", 6)))
			require.Equal(t, map[string]int64{ours: p.clock + life, nth("a", 5): p.clock + life}, p.until())
			p.requireLife(lease*time.Millisecond + keeps)
		})
	}
}

// P8: a hold that nobody remembers must not live as long as its session; what was longer stays longer.
func TestALookDoesNotLengthenAReadersHoldThatItDoesNotAskFor(t *testing.T) {
	t.Parallel()
	p := newRWLock(t)
	p.has(ours, reads)
	p.has(nth("a", 4), reads)
	p.queues(nth("a", 5), writes)
	p.clock += second
	require.Equal(t, []any{int64(1), int64(lease*1000 - second), int64(0), grantOf(nth("a", 4), noon+1, 2), "12", digits(p.clock)}, p.looks(we, nth("a", 5), nth("a", 4)))
	require.Equal(t, map[string]int64{ours: noon + lease*1000, nth("a", 4): noon + lease*1000}, p.until())
	p.clock = noon + lease*1000
	require.Equal(t, grantOf(nth("a", 5), p.clock, 3), p.looks(we, nth("a", 5))[3], "they end, and the next has it")
}

func TestALookOfNobodyInLineTakesNothing(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(p *rwlock){
		"Free":     func(*rwlock) {},
		"Released": func(p *rwlock) { p.set(released(noon), time.Minute) },
		"Ended":    func(p *rwlock) { p.has(theirs, writes); p.drops(theirs) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newRWLock(t)
			before(p)
			floor := p.floor()
			require.Equal(t, []any{int64(1), int64(0), int64(0), "", "0", digits(noon)}, p.looks(we, ours))
			require.Equal(t, floor, p.floor())
			require.Empty(t, p.until())
			require.Empty(t, p.inLines())
			p.requireEnds()
		})
	}
}

// P6: a thousand holds that have ended are taken out at once, and the next look goes on.
func TestManyHoldsThatEndedAreTakenOutInShortCalls(t *testing.T) {
	t.Parallel()
	const n = 2500
	p := newRWLock(t)
	p.has(holdOf("z"), reads)
	p.many(n, p.key)
	p.queues(ours, writes)
	p.clock += 61 * second
	for _, left := range []int{n + 1 - 1000, n + 1 - 2000} {
		reply := p.looks(we, ours)
		require.Equal(t, []any{int64(1), int64(0), int64(1), ""}, reply[:4])
		require.Len(t, p.until(), left)
	}
	require.Equal(t, grantOf(ours, p.clock, 4), p.looks(we, ours)[3])
	p.requireHave(writes, ours)
}

// P9: a lock that nobody has, and that nobody who lives queues for, is soon free for other kinds.
func TestALookFreesAKeyThatNobodyHas(t *testing.T) {
	t.Parallel()
	p := newRWLock(t)
	p.has(ours, writes)
	p.drops(ours)
	p.looks(they)
	require.Equal(t, released(noon), p.value())
	p.requireLife(floorLife)

	p.has(ours, writes)
	p.dead(3, reads, noon-second)
	p.drops(ours)
	p.looks(they)
	require.Equal(t, map[string]int64{"sb1w": -noon - 1, "phase": 1}, p.scores(p.key))
	p.requireLife(keeps)
}
