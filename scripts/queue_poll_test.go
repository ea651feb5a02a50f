// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPollIsAHeartbeatAndReturnsTheStates(t *testing.T) {
	t.Parallel()
	eachQueue(t, func(q *queued) {
		q.clock += 96 * second // the end of lives is set each hundred seconds
		q.has(theirs)
		q.queues(nth("a", 1), nth("a", 3))
		for _, key := range q.all[1:] {
			q.expires(key, time.Minute)
		}
		held := q.held()
		q.clock += second
		require.Equal(q, q.pollReply(lease*1000-second, "", "101"), q.polls(we, nth("a", 1), nth("a", 2), nth("a", 3)))
		require.Equal(q, heartbeatField(q.clock+life, 3), q.replied(we))
		require.Equal(q, held, q.held())
		require.Equal(q, []any{nth("a", 1), nth("a", 3)}, q.queue(), "a poll makes no ticket")
		q.requireEnds()
	})
}

// P6: a poll finds that a holder has died, not before the end of its hold.
func TestPollHandsALockOnWhoseHolderDied(t *testing.T) {
	t.Parallel()
	eachQueue(t, func(q *queued) {
		q.has(holdOf("z"))
		q.queues(ours, theirs)
		q.clock += lease*1000 - q.tick()
		q.heartbeat(we, life, q.next())
		require.Equal(q, q.tick(), q.polls(they, theirs)[1])
		require.Contains(q, q.held(), holdOf("z"))
		q.clock += q.tick()
		published, stamp := q.listens(we), q.stamp(noon)
		require.Equal(q, q.pollReply(life-q.tick(), "", "1"), q.polls(they, theirs))
		require.Equal(q, until(ours, q.clock-q.tick()+life), q.held())
		require.Equal(q, []string{grantOf(ours, stamp, 3)}, published.received())
	}, lockQueue, writerQueue, permitQueue)
}

// P2: a grant that a poll makes to its own session is paid by its own heartbeat, also one that it does not ask for.
func TestPollThatGetsTheLockHasItForAWholeLife(t *testing.T) {
	t.Parallel()
	for name, listed := range map[string][]string{"Listed": {ours}, "NotListed": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachQueue(t, func(q *queued) {
				q.has(holdOf("z"))
				q.queues(ours)
				q.clock += second
				q.drops(holdOf("z"))
				published, stamp := q.listens(we), q.stamp(noon)
				left, states := int64(life), "1"
				if listed == nil {
					left, states = life, ""
				}
				if listed == nil && q.kind == lockQueue {
					require.Equal(q, q.pollReply(0, "", ""), q.polls(we), "a poll that lists no ticket takes nothing")
					return
				}
				require.Equal(q, q.pollReply(left, grantOf(ours, stamp, 2), states), q.polls(we, listed...))
				require.Equal(q, until(ours, q.clock+life), q.held())
				require.Empty(q, published.received())
				q.renews(ours, time.Hour)
				require.Equal(q, int64(hour), q.polls(we, ours)[1], "what was longer stays longer")
			})
		})
	}
}

// P6: a message that was lost is made up for, also if the grant has ended unread.
func TestPollFindsAGrantThatWasNotReceived(t *testing.T) {
	t.Parallel()
	for name, later := range map[string]int64{"InTime": second, "Ended": life + second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachQueue(t, func(q *queued) {
				q.has(theirs)
				q.queues(ours, nth("a", 5))
				q.leaves(theirs)
				q.clock += later
				stamp := q.floor() // the same token, but for permits
				if q.kind == permitQueue {
					stamp = q.stamp(stamp)
				}
				require.Equal(q, q.pollReply(life, grantOf(ours, stamp, 3), q.owns()+"1"), q.polls(we, ours, nth("a", 5)))
				require.Equal(q, until(ours, q.clock+life), q.held())
			}, lockQueue, writerQueue, permitQueue)
		})
	}
}

// P8: a hold that its session has forgotten must not live as long as the session.
func TestPollDoesNotLengthenAHoldThatItDoesNotAskFor(t *testing.T) {
	t.Parallel()
	eachQueue(t, func(q *queued) {
		q.has(ours)
		q.queues(nth("a", 5))
		q.clock += second
		own := ""
		if q.isExclusive() {
			own = unpaid(ours, noon)
		}
		require.Equal(q, q.pollReply(lease*1000-second, own, "1"), q.polls(we, nth("a", 5)))
		require.Equal(q, until(ours, noon+lease*1000), q.held())
		q.clock = noon + lease*1000
		stamp := q.stamp(noon)
		require.Equal(q, grantOf(nth("a", 5), stamp, q.heartbeatCount+1), q.polls(we, nth("a", 5))[3], "it ends, and the next has it")
	})
}

// If the server lost the key, or the lock is free, every waiter has to enter again.
func TestPollWithoutATicketTakesNothing(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(q *queued){
		"Free":     func(*queued) {},
		"Released": func(q *queued) { q.has(theirs); q.leaves(theirs) },
		"Ended":    func(q *queued) { q.has(theirs); q.drops(theirs) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachQueue(t, func(q *queued) {
				before(q)
				floor := q.floor()
				require.Equal(q, q.pollReply(0, "", "0"), q.polls(we, ours))
				require.Equal(q, floor, q.floor())
				require.Empty(q, q.held())
				require.Empty(q, q.queue())
				q.requireEnds()
			})
		})
	}
}

// P2: whatever comes late, twice or out of order only adds.
func TestHeartbeatsOnlyAdd(t *testing.T) {
	t.Parallel()
	q := newQueueFixture(t)
	q.heartbeat(we, longestLife, heartbeatNumber(7))
	require.Equal(t, heartbeatField(noon+longestLife, 7), q.replied(we))
	q.clock += second
	q.heartbeat(we, life, heartbeatNumber(8))
	require.Equal(t, heartbeatField(noon+longestLife, 8), q.replied(we), "a shorter one")
	q.clock += second
	q.heartbeat(we, life, heartbeatNumber(3))
	require.Equal(t, heartbeatField(noon+longestLife, 8), q.replied(we), "an earlier one, late")
	q.heartbeat(we, longestLife, heartbeatNumber(8))
	require.Equal(t, heartbeatField(q.clock+longestLife, 8), q.replied(we), "the same, twice")
	q.requireEnds()
}

// P2: numbers of one process rise; those of its copy, restored from a snapshot, are its own.
func TestTheNumberOfAHeartbeatIsComparedWhole(t *testing.T) {
	t.Parallel()
	q := newQueueFixture(t)
	for _, number := range []string{"000000000009zzzzzzzz", "000000000010aaaaaaaa", "000000000010bbbbbbbb"} {
		q.heartbeat(we, life, number)
		require.Equal(t, number, q.replied(we)[16:36])
	}
}
