// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

// lockStates are the states of a holder key, by what prepares them.
func lockStates() map[string]func(q *queued) {
	return map[string]func(q *queued){
		"Missing":  func(*queued) {},
		"Released": func(q *queued) { q.has(theirs); q.leaves(theirs) },
		"Ours":     func(q *queued) { q.has(ours) },
		"OursMark": func(q *queued) { q.has(ours); q.queues(holdOf("c")) },
		"OursOver": func(q *queued) { q.has(ours); q.queues(holdOf("c")); q.clock += lease * 1000 },
		"Held":     func(q *queued) { q.has(theirs) },
		"HeldMark": func(q *queued) { q.has(theirs); q.queues(holdOf("c")) },
		"HeldOver": func(q *queued) { q.has(theirs); q.queues(holdOf("c")); q.clock += lease * 1000 },
		"Idle":     func(q *queued) { q.has(theirs); q.queues(holdOf("c")); q.drops(theirs) },
	}
}

// What a call does with the holder key alone: in which states it changes the key, and the code that it replies.
type aloneCase struct {
	call func(q *queued) []any
	want map[string]int64
	left map[string]string // the first characters of the key, if it changes
}

func aloneCases() map[string]aloneCase {
	const free, mark, holds = "sb1-", "sb1l" + "idle", "sb1l" + "held"
	kept := map[string]int64{"Ours": 1, "OursMark": 1, "OursOver": 1}
	with := func(codes map[string]int64, rest int64) map[string]int64 {
		all := make(map[string]int64)
		for state := range lockStates() {
			code, known := codes[state]
			if !known {
				code = rest
			}
			all[state] = code
		}
		return all
	}
	takes := map[string]int64{"Missing": 1, "Released": 1, "Ours": 1, "OursMark": 1, "OursOver": 1}
	leave := func(certain string) func(q *queued) []any {
		return func(q *queued) []any {
			args := q.leaveArgs(ours)
			args[6] = certain
			return q.alone(q.leave, args...)
		}
	}
	again := func(late int64) func(q *queued) []any {
		return func(q *queued) []any {
			args := q.requeueArgs(ours, newTurn, "0")
			q.clock += late
			return q.alone(scripts.LockRequeue, args...)
		}
	}
	released := map[string]string{"Ours": free, "OursMark": mark, "OursOver": mark}
	return map[string]aloneCase{
		"Enter": {
			func(q *queued) []any { return q.alone(q.enter, q.enterArgs(ours, "1", "")...) }, with(takes, -3),
			map[string]string{"Missing": holds, "Released": holds, "OursOver": holds},
		},
		"Try": {
			func(q *queued) []any { return q.alone(q.enter, q.enterArgs(ours, "0", "")...) }, with(takes, 0),
			map[string]string{"Missing": holds, "Released": holds, "OursOver": holds},
		},
		"Poll": {
			func(q *queued) []any { return q.alone(q.poll, q.pollArgs(we, ours)...) }, with(nil, 1),
			map[string]string{"OursOver": holds, "HeldOver": mark, "Idle": mark},
		},
		"Leave":        {leave("0"), with(map[string]int64{"Ours": 3, "OursMark": 3, "OursOver": 3}, -3), released},
		"LeaveCertain": {leave("1"), with(kept, 0), released},
		"Requeue": {
			again(0), with(map[string]int64{"Ours": 1, "OursMark": 4, "OursOver": 4}, -3),
			map[string]string{"Ours": holds, "OursMark": mark, "OursOver": mark},
		},
		"LateRequeue": {again(1000), with(map[string]int64{"Ours": 4, "OursMark": 4, "OursOver": 4}, -3), released},
		"Force": {
			func(q *queued) []any { return q.alone(scripts.LockForce, q.forceArgs(ours)...) }, with(kept, 0), released,
		},
	}
}

// R1, R4: what a client can do with the holder key alone, while a slot moves.
func TestCallsWithTheHolderKeyAlone(t *testing.T) {
	t.Parallel()
	for name, c := range aloneCases() {
		for state, prepare := range lockStates() {
			t.Run(name+"/"+state, func(t *testing.T) {
				t.Parallel()
				q := newLock(t)
				prepare(q)
				marked, floor, queue, unchanged := q.isMarked(), q.floor(), q.queue(), q.unchanged()
				require.Equal(t, c.want[state], c.call(q)[0])
				require.Equal(t, queue, q.queue(), "it needs the queue for that")
				switch left := c.left[state]; {
				case left == "" && (state == "Ours" || state == "OursMark"): // longer, or as long
					require.Contains(t, q.held(), ours)
				case left == "":
					unchanged()
				case left == "sb1-":
					require.Equal(t, left, q.value()[:4])
				case left == "sb1lidle":
					require.Equal(t, idleSays(q.floor()), q.value())
					q.requireLife(markLife)
				default:
					require.NotEmpty(t, q.held())
				}
				require.True(t, !marked || q.isMarked(), "the mark stays")
				require.GreaterOrEqual(t, q.floor(), floor)
				if name == "Poll" {
					require.NotContains(t, []string{"Missing", "Released", "Idle", "HeldOver"}, q.lockHas(), "a poll takes nothing")
				}
				require.NotEqual(t, int64(-1), q.ttl(q.key), "it has an end")
			})
		}
	}
}

// The reply to a requeue with the holder key alone ends the old attempt only if that has no ticket.
func TestRequeueAloneRepliesWhetherTheOldTicketIsGone(t *testing.T) {
	t.Parallel()
	for certain, polled := range map[string]int64{"0": 0, "1": 1} {
		q := newLock(t)
		q.has(ours)
		require.Equal(t, []any{int64(1), digits(noon + 1), digits(noon), polled, int64(1)}, q.alone(scripts.LockRequeue, q.requeueArgs(ours, newTurn, certain)...))
		require.Equal(t, []any{int64(1), digits(noon + 1), digits(noon), polled, int64(0)}, q.alone(scripts.LockRequeue, q.requeueArgs(ours, newTurn, certain)...))
		q.queues(theirs)
		require.Equal(t, []any{int64(4), digits(noon), polled, int64(1)}, q.alone(scripts.LockRequeue, q.requeueArgs(newTurn, nth("a", 3), certain)...))
		require.Empty(t, q.held())
	}
}

// Order: no newcomer overtakes the queue while a slot moves, and the queue continues when the slot stays.
func TestQueueOutlastsASlotThatMoves(t *testing.T) {
	t.Parallel()
	q := newLock(t)
	q.has(theirs)
	q.queues(ours)
	require.Equal(t, int64(3), q.alone(q.leave, q.leaveArgs(theirs)...)[0])
	for range 30 {
		q.clock += 20 * second
		q.heartbeat(we, longestLife, q.next())
		require.Equal(t, []any{int64(1), int64(0), int64(0), "", "", digits(q.clock), ""}, q.alone(q.poll, q.pollArgs(we, ours)...))
		require.Equal(t, int64(-3), q.alone(q.enter, q.enterArgs(holdOf("c"), "1", "")...)[0])
		require.Equal(t, int64(0), q.alone(q.enter, q.enterArgs(holdOf("c"), "0", "")...)[0])
		q.expires(q.tickets, queueLife)
	}
	require.Equal(t, int64(0), q.joins(holdOf("c"))[0])
	require.Contains(t, q.held(), ours)
}
