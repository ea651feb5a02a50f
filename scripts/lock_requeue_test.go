// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

// The attempts of a requeue: one that is ended, and one that queues.
var oldTurn, newTurn = nth("a", 1), nth("a", 2)

// requeued is the reply to a requeue that queues; had says whether the old attempt held.
func (q *queued) requeued(left, more int64, grants string, had int64) []any {
	return []any{int64(0), left, more, digits(q.clock), grants, int64(1), had}
}

// T4: without a mark the new attempt holds at once, and no search runs.
func TestRequeueWithoutAQueueHoldsAtOnce(t *testing.T) {
	t.Parallel()
	q := newLock(t)
	q.has(oldTurn)
	q.clock += second
	require.Equal(t, []any{int64(1), digits(q.clock), digits(q.clock), int64(1), int64(1)}, q.requeues(oldTurn, newTurn))
	require.Equal(t, lockSays(newTurn+turnMode, q.clock, "-"), q.value())
	require.Equal(t, until(newTurn, q.clock+lease*1000), q.held())
	require.Empty(t, q.queue())
	require.Empty(t, q.replied(we))
}

// T4: the new attempt stands behind all others, and its session is alive from the call.
func TestRequeueGivesTheLockToTheFirst(t *testing.T) {
	t.Parallel()
	q := newLock(t)
	q.has(oldTurn)
	q.queues(theirs)
	q.clock += 10 * second
	q.heartbeat(they, life, q.next())
	published := q.listens(they)
	require.Equal(t, q.requeued(life, 0, "", 1), q.requeues(oldTurn, newTurn))
	require.Equal(t, until(theirs, q.clock+life), q.held())
	require.Equal(t, []any{newTurn}, q.queue())
	require.Equal(t, heartbeatField(q.clock+life, q.heartbeatCount), q.replied(we), "it lives, though it held for longer than a life")
	require.Equal(t, []string{grantOf(theirs, q.clock, 2)}, published.received())
	require.True(t, q.isMarked())
	q.requireEnds()
}

// T4: the heartbeat is left out while an earlier one gives the session seven eighths of a life, and that one pays.
func TestRequeueLeavesOutAHeartbeatThatAddsLittle(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ago, gave int64
		isWritten bool
	}{
		"AMomentAgo":        {1, life, false},
		"AnEighthAgo":       {life / 8, life, false},
		"LongerAgo":         {life/8 + 1, life, true},
		"Dead":              {life, life, true},
		"OfALongerLife":     {second, longestLife, false},
		"OfAnotherTime":     {-hour, life, true}, // the clock was set back
		"OfAShorterLife":    {1, life / 2, true},
		"SetBackAMomentAgo": {-second, life, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newLock(t)
			q.has(oldTurn)
			q.queues(theirs)
			q.heartbeat(we, c.gave, q.next())
			said := q.replied(we)
			q.clock += c.ago
			q.heartbeat(they, life, q.next())
			require.Equal(t, int64(0), q.requeues(oldTurn, newTurn)[0])
			if c.isWritten {
				said = heartbeatField(q.clock+life, q.heartbeatCount)
			}
			require.Equal(t, said, q.replied(we))
			published, paid := q.listens(we), said[16:36]
			require.Equal(t, q.left(1, ""), q.leaves(theirs))
			require.Equal(t, []string{attempt(newTurn) + digits(q.floor()) + paid}, published.received(), "the heartbeat that pays is the one that is known")
			ends := parseStamp(t, said[:16])
			require.Equal(t, until(newTurn, (ends-q.clock+999)/1000*1000+q.clock/1000*1000), q.held())
		})
	}
}

// T4: if no other session is alive, the new attempt holds for its lease.
func TestRequeueOfTheOnlyOneAliveWins(t *testing.T) {
	t.Parallel()
	q := newLock(t)
	q.has(oldTurn)
	q.queues(theirs)
	q.clock += 10 * second
	published := q.listens(we)
	require.Equal(t, []any{int64(1), digits(q.clock), digits(q.clock), int64(1), int64(1)}, q.requeues(oldTurn, newTurn))
	require.Equal(t, until(newTurn, q.clock+lease*1000), q.held())
	require.Equal(t, []any{theirs}, q.queue())
	require.Empty(t, published.received())
}

// The reply says which other attempt of the session holds now, as a fair request.
func TestRequeueRepliesTheGrantToItsOwnSession(t *testing.T) {
	t.Parallel()
	q := newLock(t)
	q.has(oldTurn)
	other := nth("a", 5)
	q.queues(other)
	published := q.listens(we)
	require.Equal(t, q.requeued(life, 0, grantOf(other, noon+1, 1), 1), q.requeues(oldTurn, newTurn))
	require.Contains(t, q.held(), other)
	require.Empty(t, published.received())
}

// T4: executed later than its not-after, it releases and makes no ticket.
func TestLateRequeueReleasesAndQueuesNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(q *queued)
		next    string
	}{
		"Unmarked":   {func(*queued) {}, ""},
		"Queue":      {func(q *queued) { q.queues(theirs) }, theirs},
		"OwnSession": {func(q *queued) { q.queues(nth("a", 5)) }, nth("a", 5)},
		"Dead":       {func(q *queued) { q.dead(3, noon-second); q.queues(theirs); q.leaves(theirs) }, ""},
	} {
		for _, certain := range []string{"0", "1"} {
			t.Run(name+certain, func(t *testing.T) {
				t.Parallel()
				q := newLock(t)
				q.has(oldTurn)
				c.prepare(q)
				args := q.requeueArgs(oldTurn, newTurn, certain)
				q.clock++
				published := q.listens(we)
				for _, had := range []int64{1, 0} {
					require.Equal(t, []any{int64(4), digits(q.clock), int64(1), had}, q.mustRun(scripts.LockRequeue, q.all, args...))
					require.NotContains(t, q.queue(), newTurn)
					require.Equal(t, c.next, q.lockHas())
				}
				require.Len(t, published.received(), map[bool]int{true: 1}[name == "OwnSession"], "the reply has no room for it")
			})
		}
	}
}

// T4: a copy of a requeue changes nothing that the first has done, in time or late.
func TestRequeueTwiceIsRequeueOnce(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(q *queued){
		"Holds":  func(*queued) {},
		"Queues": func(q *queued) { q.queues(theirs) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newLock(t)
			q.has(oldTurn)
			prepare(q)
			args := q.requeueArgs(oldTurn, newTurn, "0")
			first := q.mustRun(scripts.LockRequeue, q.all, args...)
			value, queue := q.value(), q.queue()
			for range 2 {
				reply := q.mustRun(scripts.LockRequeue, q.all, args...)
				require.Equal(t, first[0], reply[0])
				require.Equal(t, value, q.value())
				require.Equal(t, queue, q.queue())
				q.clock += 1000 // the next is late
			}
		})
	}
}

// T4: a copy that arrives when the new attempt was granted the lock lengthens its hold, and never makes it shorter.
func TestRequeueOfAHolderLengthensItsHold(t *testing.T) {
	t.Parallel()
	q := newLock(t)
	q.has(oldTurn)
	q.queues(theirs)
	args := q.requeueArgs(oldTurn, newTurn, "0")
	q.mustRun(scripts.LockRequeue, q.all, args...)
	q.leaves(theirs)
	require.Equal(t, until(newTurn, noon+life), q.held())
	require.Equal(t, []any{int64(1), digits(noon + 2), digits(noon), int64(1), int64(0)}, q.mustRun(scripts.LockRequeue, q.all, args...))
	require.Equal(t, until(newTurn, noon+lease*1000), q.held())
	q.renews(newTurn, time.Hour)
	q.mustRun(scripts.LockRequeue, q.all, args...)
	require.Equal(t, until(newTurn, noon+hour), q.held())
}

// A requeue whose old attempt holds no more: it queues on a marked key, and not on any other.
func TestRequeueOfAnAttemptThatHoldsNoMore(t *testing.T) {
	t.Parallel()
	gone := func(q *queued) []any { return []any{int64(4), digits(q.clock), int64(1), int64(0)} }
	for name, c := range map[string]struct {
		prepare func(q *queued)
		want    func(q *queued) []any
		queues  bool
	}{
		"LostKey":      {func(q *queued) { q.server.MustDo(q, "DEL", q.key) }, gone, false},
		"Released":     {func(q *queued) { q.leaves(oldTurn) }, gone, false},
		"HeldUnmarked": {func(q *queued) { q.leaves(oldTurn); q.has(theirs) }, gone, false},
		"HeldMarked": {func(q *queued) {
			q.leaves(oldTurn)
			q.has(theirs)
			q.queues(holdOf("c"))
		}, func(q *queued) []any { return q.requeued(lease*1000, 0, "", 0) }, true},
		"EndedMarked": {func(q *queued) {
			q.queues(theirs)
			q.clock += lease*1000 + second
			q.heartbeat(they, life, q.next())
		}, func(q *queued) []any { return q.requeued(life, 0, "", 1) }, true},
		"Idle": {func(q *queued) {
			q.queues(theirs)
			q.drops(oldTurn)
		}, func(q *queued) []any { return q.requeued(life, 0, "", 0) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newLock(t)
			q.has(oldTurn)
			c.prepare(q)
			require.Equal(t, c.want(q), q.requeues(oldTurn, newTurn))
			require.Equal(t, c.queues, len(q.queue()) > 0 && q.queue()[len(q.queue())-1] == newTurn)
			require.NotContains(t, q.held(), oldTurn)
		})
	}
}

// T4: the ticket of a first copy is known, also if the key was lost or the call is late.
func TestRequeueFindsTheTicketOfAnEarlierCopy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(q *queued)
		late    int64
		left    int64
		more    int64
	}{
		"LostKey":      {func(q *queued) { q.server.MustDo(q, "DEL", q.key) }, 0, 0, 1},
		"LostAndTaken": {func(q *queued) { q.server.MustDo(q, "DEL", q.key); q.has(holdOf("c")) }, 0, lease * 1000, 0},
		"Late":         {func(*queued) {}, 1000, life - 1000, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newLock(t)
			q.has(oldTurn)
			q.queues(theirs)
			args := q.requeueArgs(oldTurn, newTurn, "0")
			q.mustRun(scripts.LockRequeue, q.all, args...)
			c.prepare(q)
			q.clock += c.late
			require.Equal(t, q.requeued(c.left, c.more, "", 0), q.mustRun(scripts.LockRequeue, q.all, args...))
			require.Equal(t, []any{newTurn}, q.queue())
		})
	}
}

// T4: the ticket of the old attempt is removed with it, unless it certainly has no ticket.
func TestRequeueEndsTheTicketOfTheOldAttempt(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(q *queued){
		"Waits": func(q *queued) { q.has(theirs); q.queues(oldTurn) },
		"HoldsWithATicket": func(q *queued) {
			q.has(theirs)
			q.queues(oldTurn)
			q.server.MustDo(q, "DEL", q.key)
			require.Equal(q, int64(1), q.alone(q.enter, q.enterArgs(oldTurn, "1", "")...)[0], "it does not see the queue")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newLock(t)
			prepare(q)
			q.requeues(oldTurn, newTurn)
			require.NotContains(t, q.queue(), oldTurn)
			require.NotContains(t, q.held(), oldTurn)
		})
	}
}

// P10: the old attempt is released whatever is refused, and no ticket is half made.
func TestRefusedRequeueReleases(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		refuse func(q *queued) *fixture
		next   string
	}{
		"Memory":  {func(q *queued) *fixture { q.fill(); return q.fixture }, theirs},
		"Tickets": {func(q *queued) *fixture { return q.as("+@all", "-zadd") }, theirs},
	} {
		for _, marked := range []bool{false, true} {
			for _, certain := range []string{"0", "1"} {
				t.Run(name+certain+map[bool]string{true: "Marked"}[marked], func(t *testing.T) {
					t.Parallel()
					q := queuedOf(newFixtureAt(t), lockQueue)
					q.has(oldTurn)
					if marked {
						q.queues(theirs)
					}
					reply, err := c.refuse(q).tryKeys(scripts.LockRequeue, q.all, q.requeueArgs(oldTurn, newTurn, certain)...)
					require.NoError(t, err)
					require.NotContains(t, q.held(), oldTurn)
					if marked {
						require.Contains(t, q.held(), theirs)
					} else if first(reply) == int64(4) {
						require.Equal(t, released(noon), q.value())
					}
					require.Equal(t, first(reply) == int64(0), len(q.queue()) == 1)
					q.requireEnds()
				})
			}
		}
	}
}

// P10: a grant that is refused ends the old attempt all the same, and keeps every ticket for the next poll.
func TestRequeueWhoseGrantIsRefusedKeepsTheQueue(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		others []string
		after  int64
	}{"Others": {[]string{theirs, holdOf("c")}, 3}, "Alone": {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := queuedOf(newFixtureAt(t), lockQueue)
			q.has(oldTurn)
			q.queues(holdOf("d"))
			q.queues(c.others...)
			q.leaves(holdOf("d"))
			waits := q.scores(q.tickets)
			waits[newTurn+turnMode] = q.clock + c.after
			reply, err := q.as("+@all", "-set").tryKeys(scripts.LockRequeue, q.all, q.requeueArgs(oldTurn, newTurn, "1")...)
			require.NoError(t, err)
			require.Equal(t, q.requeued(0, 1, "", 1), reply)
			require.Equal(t, waits, q.scores(q.tickets))
			require.Empty(t, q.held())
			q.requireEnds()
			q.polls(we, newTurn)
			require.NotEmpty(t, q.held())
		})
	}
}

// Order: a dead ticket at the head keeps its position, and its time.
func TestRequeueKeepsTheDeadInTheQueue(t *testing.T) {
	t.Parallel()
	q := newLock(t)
	q.has(oldTurn)
	q.queues(theirs, holdOf("c"))
	q.clock += life
	q.heartbeat(session("c"), life, q.next())
	require.Equal(t, q.requeued(life, 0, "", 1), q.requeues(oldTurn, newTurn))
	require.Contains(t, q.held(), holdOf("c"))
	require.Equal(t, map[string]int64{theirs + turnMode: noon, newTurn + turnMode: q.clock}, q.scores(q.tickets))
	q.heartbeat(they, life, q.next())
	q.leaves(holdOf("c"))
	require.Contains(t, q.held(), theirs)
}

// P3: tokens grow through requeues, also if the clock is set back.
func TestTokensGrowThroughRequeues(t *testing.T) {
	t.Parallel()
	q := newLock(t)
	q.has(nth("a", 10))
	before := q.floor()
	for n := range 8 {
		q.clock -= hour
		if n == 4 {
			q.queues(nth("b", 1))
			q.clock += life // it is dead
		}
		require.Equal(t, int64(1), q.requeues(nth("a", 10+n), nth("a", 11+n))[0])
		require.Greater(t, q.floor(), before)
		before = q.floor()
	}
}

// lockHas returns what holds, "" for nothing.
func (q *queued) lockHas() string {
	q.Helper()
	for hold := range q.held() {
		return hold
	}
	return ""
}
