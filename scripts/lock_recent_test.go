// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// handOffs are the ways in which a lock that theirs has goes to a waiter.
func handOffs() map[string]func(q *queued) {
	return map[string]func(q *queued){
		"Leave":   func(q *queued) { q.leaves(theirs) },
		"Requeue": func(q *queued) { q.requeues(theirs, nth("b", 9)) },
		"Force":   func(q *queued) { q.forces(theirs) },
		"Enter":   func(q *queued) { q.drops(theirs); q.joins(nth("e", 1)) },
	}
}

// S1: a waiter whose subscription has ended is passed over, and keeps its ticket.
func TestWaiterThatNoLongerListens_IsPassedOver(t *testing.T) {
	t.Parallel()
	for name, handsOff := range handOffs() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newLock(t)
			q.has(theirs)
			q.queues(nth("k", 1), nth("k", 2), ours)
			q.received(session("k"))
			published := q.listens(we)
			q.polls(we, ours)
			handsOff(q)
			require.Contains(t, q.held(), ours)
			require.Len(t, published.received(), 1)
			require.Equal(t, []any{nth("k", 1), nth("k", 2)}, q.queue()[:2])
			q.listens(session("k"))
			q.leaves(ours)
			require.Contains(t, q.held(), nth("k", 1), "it is heard again")
		})
	}
}

// S1: one that did not listen at this server may listen elsewhere. If no session listens any more, the lock waits for a poll.
func TestWaiterThatNeverListened_IsServed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(q *queued)
		want    string
	}{
		"NeverListening": {func(*queued) {}, ours},
		"AllGone":        {func(q *queued) { q.received(we); q.received(session("c")) }, ""},
		"Alone":          {func(q *queued) { q.leaves(holdOf("c")); q.received(we) }, ""},
		"Second":         {func(q *queued) { q.received(we) }, holdOf("c")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newLock(t)
			q.has(theirs)
			q.queues(ours, holdOf("c"))
			c.prepare(q)
			q.leaves(theirs)
			require.Equal(t, c.want, q.lockHas())
			if c.want == "" {
				require.True(t, q.isMarked())
				q.polls(we, ours)
				require.Equal(t, ours, q.lockHas(), "it lives, and polls")
			}
		})
	}
}

// S2: a turn's session that was not heard of for 1.2 pauses is passed over for one that was; a fair request never is.
func TestWaiterThatIsNotRecent_IsPassedOverIfItTakesTurns(t *testing.T) {
	t.Parallel()
	const late = life*2/5 + 1
	for name, c := range map[string]struct {
		mode string
		late int64
		want string
	}{
		"Turn": {turnMode, late, ours}, "TurnInTime": {turnMode, late - 1, nth("k", 1)}, "KeptTurn": {idleMode, late, ours}, "FairRequest": {fairMode, late, nth("k", 1)},
	} {
		for way, handsOff := range handOffs() {
			t.Run(name+way, func(t *testing.T) {
				t.Parallel()
				q := newLock(t)
				q.suffix = c.mode
				q.has(theirs)
				q.queues(nth("k", 1))
				q.clock += c.late
				q.queues(ours)
				handsOff(q)
				require.Contains(t, q.held(), c.want)
			})
		}
	}
}

// S2: if none was heard of lately the first one is served.
func TestWaitersThatAreNotRecent_AreServedInOrder(t *testing.T) {
	t.Parallel()
	q := newLock(t)
	q.has(theirs)
	q.queues(ours, holdOf("c"))
	q.clock += life/2 + 1
	require.Equal(t, ours, q.passes(theirs))
}
