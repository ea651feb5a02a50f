// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

// queuedCalls are all that is asked of a lock with a queue.
func queuedCalls(q *queued) map[string]func() (any, error) {
	call := func(script *scripts.Script, keys []string, args ...any) func() (any, error) {
		return func() (any, error) { return q.tryKeys(script, keys, args...) }
	}
	calls := map[string]func() (any, error){
		"Try":            call(q.enter, q.all, q.enterArgs(ours, "0", "")...),
		"Join":           call(q.enter, q.all, q.enterArgs(ours, "1", q.next())...),
		"Leave":          call(q.leave, q.all, q.leaveArgs(ours)...),
		"Poll":           call(q.poll, q.all, q.pollArgs(we, ours)...),
		"PollWithoutIDs": call(q.poll, q.all, q.pollArgs(we)...),
	}
	switch {
	case q.kind == lockQueue:
		fresh := nth("a", 7)
		calls["Force"] = call(scripts.LockForce, q.all, q.forceArgs(ours)...)
		calls["Requeue"] = call(scripts.LockRequeue, q.all, q.requeueArgs(ours, fresh, "0")...)
		calls["Renew"] = call(scripts.HolderRenew, q.all[:1], holdOf("z"), lease)
		calls["Waiters"] = call(scripts.LockWaiters, q.all[1:], "0", 10, 42)
		calls["Alone"] = call(q.enter, q.all[:1], q.enterArgs(ours, "1", "")...)
		calls["PollAlone"] = call(q.poll, q.all[:1], q.pollArgs(we, ours)...)
		calls["LeaveAlone"] = call(q.leave, q.all[:1], q.leaveArgs(ours)...)
		calls["RequeueAlone"] = call(scripts.LockRequeue, q.all[:1], q.requeueArgs(ours, fresh, "0")...)
	case q.rw != nil:
		calls["Force"] = call(scripts.RWLockForce, q.all, q.rw.forceArgs(ours, theirs)...)
		calls["Downgrade"] = call(scripts.RWLockDowngrade, q.all, q.leaveArgs(ours)...)
		calls["MayShare"] = call(scripts.RWLockMayShare, q.all, q.member(ours))
	case q.permits != nil:
		p, mine := q.permits, permitRequest(ours, 1)
		calls["Resize"] = call(scripts.SemaphoreResize, q.all, p.resizeArgs(5)...)
		calls["Split"] = call(scripts.SemaphoreSplit, q.all, p.splitArgs(permitRequest(nth("a", 7), 1), mine)...)
		calls["Yield"] = call(scripts.SemaphoreYield, q.all, p.yieldArgs(mine)...)
		calls["Drop"] = call(scripts.HoldsDrop, q.all[:1], q.member(ours))
		calls["Renew"] = call(scripts.HoldsRenew, q.all[:1], q.member(ours), lease)
		calls["List"] = call(scripts.HoldsList, q.all[:1], "sb1s", 0, 10)
		calls["Available"] = call(scripts.SemaphoreAvailable, q.all[:1])
	}
	return calls
}

// foreignTo says what the scripts of a kind report of foreign keys if it is not what a call of redlock reports: the kind
// of which they do not judge the rest, or "" if the server refuses the type.
var foreignTo = map[string]map[string]string{
	lockQueue:   {"OtherKind": "?", "CutShort": "q", "Unmarked": "q", "TooLong": "q"},
	readerQueue: {"ReadWrite": "own", "Zset": "?", "CutShort": "q", "Unmarked": "q", "TooLong": "q"},
	writerQueue: {"ReadWrite": "own", "Zset": "?", "CutShort": "q", "Unmarked": "q", "TooLong": "q"},
	permitQueue: func() map[string]string {
		kinds := map[string]string{"Zset": "?"}
		for what, made := range foreign {
			if made.make[0] != "ZADD" {
				kinds[what] = ""
			}
		}
		return kinds
	}(),
}

// P9: a key that is foreign, or another kind's, is left as it is, and so are the others.
func TestQueuedLocksLeaveAForeignHolderKeyAlone(t *testing.T) {
	t.Parallel()
	for kind, kinds := range foreignTo {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			requireHolderLeftAlone(t, freshQueue(kind), queuedCalls, kinds, func(t *testing.T, verb, found string, reply any) {
				t.Helper()
				switch verb {
				case "Try", "Join", "Poll", "PollWithoutIDs", "Requeue", "Alone", "PollAlone", "RequeueAlone":
					require.Equal(t, int64(-2), first(reply))
					if kind != permitQueue {
						require.Equal(t, []any{int64(-2), found}, reply)
					}
				case "Resize", "List", "Available":
					require.Equal(t, int64(-2), first(reply))
				case "Leave", "Force", "Downgrade", "MayShare":
					require.Equal(t, int64(0), first(reply))
				}
			})
		})
	}
}

func freshQueue(kind string) func(tb testing.TB) *queued {
	return func(tb testing.TB) *queued {
		tb.Helper()
		return queuedOf(newFixture(tb), kind)
	}
}

// P9, P10: types are read before the first write.
func TestQueuedLocksLeaveForeignKeysOfTheirQueuesAlone(t *testing.T) {
	t.Parallel()
	states := map[string]func(q *queued){
		"Free":     func(*queued) {},
		"Released": func(q *queued) { q.has(theirs); q.leaves(theirs) },
		"Held":     func(q *queued) { q.has(theirs) },
		"Shared":   func(q *queued) { q.tries(theirs); q.tries(ours) },
		"Ours":     func(q *queued) { q.has(ours) },
		"Ended":    func(q *queued) { q.has(theirs); q.drops(theirs) },
		"Line":     func(q *queued) { q.has(theirs); q.queues(holdOf("c")) },
		"OursLine": func(q *queued) { q.has(ours); q.queues(holdOf("d")); q.dead(2, noon-second) },
		"EndedLine": func(q *queued) {
			q.has(theirs)
			q.queues(holdOf("d"))
			q.dead(2, noon-hour)
			q.drops(theirs)
		},
	}
	for kind, least := range map[string]int32{lockQueue: 40, readerQueue: 80, writerQueue: 80, permitQueue: 40} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			requireQueueLeftAlone(t, freshQueue(kind), queuedCalls, states, least)
		})
	}
}

// P9: kinds that share a name keep each other out while the lock is held and while a session queues, and not after it.
func TestOtherKindsAreKeptOutOfQueuedLocks(t *testing.T) {
	t.Parallel()
	letters := map[string]string{lockQueue: "l", readerQueue: "w", writerQueue: "w"}
	voter := func(q *queued) *voter {
		v := voterOf(q.fixture)
		v.since(noon - greatest)
		v.expires(v.epoch, time.Hour)
		return v
	}
	for name, prepare := range map[string]func(q *queued){
		"Held": func(q *queued) { q.tries(ours) },
		"QueuedFor": func(q *queued) {
			q.has(holdOf("z"))
			q.queues(ours)
			q.clock += life
			q.leaves(holdOf("z"))
		},
		"Dropped": func(q *queued) { q.has(holdOf("z")); q.queues(ours); q.drops(holdOf("z")) },
		"Granted": func(q *queued) { q.has(holdOf("z")); q.queues(ours); q.leaves(holdOf("z")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachQueue(t, func(q *queued) {
				prepare(q)
				unchanged := q.unchanged()
				require.Equal(q, []any{int64(-2), letters[q.kind]}, voter(q).elect(theirs, they))
				if q.rw != nil {
					l := queueFixtureOf(q.fixture)
					require.Equal(q, []any{int64(-2), "w"}, l.mustRun(scripts.LockEnter, l.keys(), l.enterArgs(theirs+turnMode, "1", l.next())...))
				}
				unchanged()
			}, lockQueue, readerQueue, writerQueue)
		})
	}
	t.Run("Left", func(t *testing.T) {
		t.Parallel()
		eachQueue(t, func(q *queued) {
			q.has(ours)
			q.leaves(ours)
			v := voter(q)
			require.Equal(q, []any{int64(1), digits(noon + 1), digits(noon)}, v.elect(theirs, they))
			require.Equal(q, []any{int64(-2), "q"}, q.tries(ours))
			require.Equal(q, []any{int64(-2), "q"}, q.polls(we, ours))
			v.release(theirs, noon+1)
			q.has(ours)
		}, lockQueue, readerQueue, writerQueue)
	})
}
