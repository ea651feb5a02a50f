// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const hour = 3600 * second

// Order: the server's clock is set back while sessions wait, and they wait on.
func TestTheOrderOutlastsAClockThatIsSetBack(t *testing.T) {
	t.Parallel()
	eachQueue(t, func(q *queued) {
		q.has(holdOf("z"))
		q.queues(ours)
		q.clock += q.tick()
		q.queues(theirs)
		q.clock -= hour
		q.queues(holdOf("c"))
		q.polls(we, ours)
		q.polls(they, theirs)
		floor := noon
		for n, hold := range []string{holdOf("z"), ours, theirs} {
			require.Equal(q, int64(1), q.leaves(hold)[0])
			require.Equal(q, until([]string{ours, theirs, holdOf("c")}[n], q.clock+life), q.held(), "as long as it would be")
			require.Greater(q, q.floor(), floor, "tokens grow all the same")
			floor = q.floor()
		}
	}, lockQueue, writerQueue, permitQueue)
}

// P6: a session that died before the clock was set back does not count as alive until it has caught up.
func TestALifeFromBeforeTheClockWasSetBackIsNotBelieved(t *testing.T) {
	t.Parallel()
	eachQueue(t, func(q *queued) {
		q.has(holdOf("z"))
		q.queues(theirs, ours) // the first dies
		q.clock -= hour
		q.polls(we, ours)
		require.Equal(q, heartbeatField(q.clock+life, 3), q.replied(we), "a heartbeat makes it credible again")
		q.leaves(holdOf("z"))
		require.Equal(q, until(ours, q.clock+life), q.held())
		require.Equal(q, []any{theirs}, q.queue())
		if q.kind == lockQueue {
			require.Equal(q, []any{theirs + turnMode, digits(noon), int64(0), label}, q.lockWaiters("0", 10))
		}
	})
}

// P6: a dead writer keeps no reader out.
func TestAWritersLifeFromBeforeTheClockWasSetBackIsNotBelieved(t *testing.T) {
	t.Parallel()
	r := newRWLock(t)
	r.has(ours, reads)
	r.queues(holdOf("w"), writes)
	r.clock -= hour
	require.True(t, r.isOpen(ours))
	r.has(theirs, reads)
	r.polls(session("w"), holdOf("w"))
	require.False(t, r.isOpen(ours), "a heartbeat makes it credible again")
}

// P1, P8: a hold lasts as long as it did by a clock that is set back, whatever comes.
func TestAClockThatIsSetBackEndsNoHold(t *testing.T) {
	t.Parallel()
	eachQueue(t, func(q *queued) {
		q.tries(ours)
		q.clock -= hour
		q.tries(theirs)
		q.polls(they, theirs)
		require.Equal(q, int64(1), q.renews(ours, time.Second))
		q.polls(we, ours)
		require.Equal(q, noon+lease*1000, q.held()[ours])
	})
}

// Order: a session that was passed over as dead counts as alive again, by a clock that was set back,
// or comes back before the clock has caught up. The memory of the search does not hide it.
func TestTheMemoryOfTheDeadIsNotBelievedWhereTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	for name, comesBack := range map[string]bool{"DeadByTheClock": false, "ComesBack": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newLock(t)
			p.dead(64, noon-second) // the foremost
			p.has(holdOf("z"))
			p.joins(holdOf("d")) // is dead, and the first behind them
			p.clock += second
			p.joins(theirs)
			p.clock += life + second
			p.joins(ours)
			p.joins(holdOf("c"))
			require.Equal(t, ours, p.passes(holdOf("z")), "both are passed over")
			require.Equal(t, digits(p.clock)+theirs+turnMode, p.replied("from"))
			p.clock -= second + second/2 // theirs lives, the head does not
			if comesBack {
				p.polls(they, theirs)
				p.clock += 2 * second // the clock has caught up
				p.heartbeat(session("c"), life, p.next())
			}
			require.Equal(t, theirs, p.passes(ours))
		})
	}
}
