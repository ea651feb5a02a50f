// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLeaveOfTheLastKeepsTheFloor(t *testing.T) {
	t.Parallel()
	eachQueue(t, func(q *queued) {
		q.tries(ours)
		q.clock += second
		require.Equal(q, q.left(1, ""), q.leaves(ours))
		q.requireFree(noon)
	})
}

// P5.
func TestLeavingTwiceTouchesNoOtherHold(t *testing.T) {
	t.Parallel()
	eachQueue(t, func(q *queued) {
		q.has(ours)
		q.queues(nth("a", 5), theirs) // the first is of the same session
		require.Equal(q, int64(1), q.leaves(ours)[0])
		for range 2 {
			unchanged := q.unchanged()
			require.Equal(q, q.left(0, ""), q.leaves(ours))
			unchanged()
		}
	})
}

func TestLeaveGivesTheLockToTheFirstAndNotifiesIt(t *testing.T) {
	t.Parallel()
	eachQueue(t, func(q *queued) {
		q.has(holdOf("z"))
		q.clock += q.tick()
		q.queues(ours)
		q.clock += q.tick()
		q.queues(theirs)
		q.clock += second
		published, notPublished := q.listens(we), q.listens(they)
		first := q.stamp(noon)
		require.Equal(q, q.left(1, ""), q.leaves(holdOf("z")))
		require.Equal(q, until(ours, noon+q.tick()+life), q.held(), "the rest of its life")
		if q.isExclusive() {
			q.requireLife(life*time.Microsecond + keeps)
		} else {
			q.requireLife(lease*time.Millisecond + q.outlives())
		}
		require.Equal(q, []any{theirs}, q.queue())
		require.Equal(q, []string{grantOf(ours, first, 1)}, published.received())
		require.Empty(q, notPublished.received())

		next := q.stamp(q.floor())
		require.Equal(q, q.left(1, ""), q.leaves(ours))
		require.Equal(q, []string{grantOf(theirs, next, 2)}, notPublished.received(), "twice in a microsecond: a token each")
		floor := q.floor()
		require.Equal(q, int64(1), q.leaves(theirs)[0])
		q.requireFree(floor)
	}, lockQueue, writerQueue, permitQueue)
}

// No position is lost for a few milliseconds.
func TestGrantLastsForASecondAtLeast(t *testing.T) {
	t.Parallel()
	eachQueue(t, func(q *queued) {
		q.has(theirs)
		q.queues(ours)
		q.clock += life - 5*q.tick()
		published, stamp := q.listens(we), q.stamp(noon)
		q.leaves(theirs)
		require.Equal(q, []string{grantOf(ours, stamp, 1)}, published.received())
		require.Equal(q, until(ours, q.clock+second), q.held())
	})
}

func TestGrantToTheOwnSessionIsInTheReply(t *testing.T) {
	t.Parallel()
	eachQueue(t, func(q *queued) {
		q.has(ours)
		next := nth("a", 5)
		q.queues(next)
		published := q.listens(we)
		require.Equal(q, q.left(1, grantOf(next, q.stamp(noon), 1)), q.leaves(ours))
		require.Empty(q, published.received())
	})
}

func TestLeavingTheQueueTakesTheTicketAndNothingElse(t *testing.T) {
	t.Parallel()
	eachQueue(t, func(q *queued) {
		q.has(theirs)
		q.queues(ours, nth("a", 5))
		said, held := q.replied(we), q.held()
		require.Equal(q, q.left(2, ""), q.leaves(ours))
		require.Equal(q, []any{nth("a", 5)}, q.queue())
		require.Equal(q, said, q.replied(we), "its sibling lives from it")
		require.Equal(q, held, q.held())
	})
}

// P8: an attempt without a hold, or whose hold was forced, changes nothing.
func TestLeaveWithoutAHoldChangesNothing(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(q *queued){
		"Free":             func(*queued) {},
		"Released":         func(q *queued) { q.has(theirs); q.leaves(theirs) },
		"Held":             func(q *queued) { q.has(theirs) },
		"Forced":           func(q *queued) { q.has(ours); q.leaves(ours); q.has(theirs) },
		"HeldByOurSession": func(q *queued) { q.has(nth("a", 5)); q.queues(nth("a", 6)) },
		"Queued":           func(q *queued) { q.has(holdOf("c")); q.queues(theirs) },
		"Ended":            func(q *queued) { q.has(theirs); q.clock += hour },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachQueue(t, func(q *queued) {
				prepare(q)
				unchanged := q.unchanged()
				require.Equal(q, q.left(0, ""), q.leaves(ours))
				require.Equal(q, int64(0), q.drops(ours))
				require.Equal(q, int64(0), q.renews(ours, time.Hour))
				if q.rw != nil {
					require.Equal(q, int64(0), q.rw.forces(ours))
					require.Equal(q, q.left(0, ""), q.rw.downgrades(ours))
					require.False(q, q.rw.isOpen(ours))
				}
				unchanged()
			})
		})
	}
}

// P1: a hold that has ended is handed over once, by the session that sees it first.
func TestLeaveOfAnEndedHold(t *testing.T) {
	t.Parallel()
	eachQueue(t, func(q *queued) {
		q.has(ours)
		q.clock += lease * 1000
		q.joins(theirs) // sees that it is free
		require.Equal(q, until(theirs, q.clock+lease*1000), q.held())
		unchanged := q.unchanged()
		require.Equal(q, int64(0), q.leaves(ours)[0])
		unchanged()
	})
}

// A hold that was dropped is over, and the lock goes to the queue.
func TestDroppedLockIsFreeForTheQueue(t *testing.T) {
	t.Parallel()
	eachQueue(t, func(q *queued) {
		q.has(ours)
		q.queues(theirs)
		require.Equal(q, int64(1), q.drops(ours))
		require.Equal(q, int64(0), q.drops(ours), "sent twice")
		require.Equal(q, int64(0), q.renews(ours, time.Hour), "dead is dead")
		require.Equal(q, []any{theirs}, q.queue())
		require.Equal(q, int64(0), q.tries(holdOf("c"))[0])
		require.Equal(q, until(theirs, noon+life), q.held())
	}, lockQueue, writerQueue, permitQueue)
}
