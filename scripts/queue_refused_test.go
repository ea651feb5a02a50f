// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

// P10: a lock is released and handed on when nothing else works.
func TestQueuedLockIsHandedOnWhenMemoryIsFull(t *testing.T) {
	t.Parallel()
	rw := []string{readerQueue, writerQueue}
	for name, c := range map[string]struct {
		prepare func(q *queued)
		gives   func(q *queued) any
		isFree  bool // the lock is free afterwards; otherwise theirs has it
		kinds   []string
	}{
		"LeaveToNoWaiter": {prepare: func(*queued) {}, isFree: true},
		"LeaveToTheNext":  {prepare: func(q *queued) { q.queues(theirs) }},
		"LeavePastTheDead": {prepare: func(q *queued) {
			q.dead(300, noon-second)
			q.queues(theirs)
		}},
		"LeavePastTheLongDead": {prepare: func(q *queued) {
			q.dead(300, noon-hour)
			q.queues(theirs)
		}},
		"LeaveToTheDead": {prepare: func(q *queued) { q.dead(300, noon-second) }, isFree: true},
		"Drop":           {prepare: func(q *queued) { q.queues(theirs) }, gives: func(q *queued) any { return q.drops(ours) }, isFree: true},
		"PollAfterTheEnd": {
			prepare: func(q *queued) {
				q.queues(theirs, holdOf("c"))
				q.drops(ours)
			},
			gives: func(q *queued) any { return q.polls(session("c"), holdOf("c")) },
		},
		"Force": {
			prepare: func(q *queued) { q.queues(theirs) }, kinds: rw,
			gives: func(q *queued) any { return q.rw.forces(ours) },
		},
		"Downgrade": {
			prepare: func(q *queued) { q.queues(theirs) }, kinds: rw[:1],
			gives: func(q *queued) any { return q.rw.downgrades(ours) },
		},
		"Cancel": {
			prepare: func(q *queued) {
				q.rw.downgrades(ours)
				q.rw.queues(holdOf("w"), writes)
				q.queues(theirs)
			},
			gives: func(q *queued) any { return q.leaves(holdOf("w")) }, kinds: rw[:1],
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachQueueAt(t, func(q *queued) {
				q.has(ours)
				c.prepare(q)
				published := q.listens(they)
				q.fill()
				if c.gives == nil {
					require.Equal(q, int64(1), q.leaves(ours)[0])
				} else {
					require.Contains(q, []any{int64(1), int64(2)}, first(c.gives(q)))
				}
				if c.isFree {
					require.Equal(q, noon, q.floor(), "it is kept")
					return
				}
				require.Contains(q, q.held(), theirs)
				require.Len(q, published.received(), 1)
			}, c.kinds...)
		})
	}
}

// P6, P10: a search that one call cannot finish continues, though a release may write down nothing of it.
func TestALongSearchIsFinishedWhenMemoryIsFull(t *testing.T) {
	t.Parallel()
	eachQueueAt(t, func(q *queued) {
		q.has(ours)
		q.dead(3000, noon-second)
		q.queues(theirs)
		q.fill()
		require.Equal(q, []any{int64(1), digits(noon), "", int64(1)}, q.leaves(ours))
		calls := 3
		if q.kind == lockQueue {
			calls-- // its release may write down how far it came
		}
		for range calls {
			require.Empty(q, q.held())
			require.Equal(q, noon, q.floor(), "it is kept")
			q.polls(they, theirs)
		}
		require.Contains(q, q.held(), theirs)
	}, lockQueue)
}

// P2, P6: holds and tickets are kept when memory is full.
func TestHoldsAndTicketsAreKeptWhenMemoryIsFull(t *testing.T) {
	t.Parallel()
	eachQueueAt(t, func(q *queued) {
		q.has(ours)
		q.queues(theirs)
		q.fill()
		q.clock += second
		require.Equal(q, int64(1), q.renews(ours, time.Hour))
		require.Equal(q, until(ours, q.clock+hour), q.held())
		q.requireLife(time.Hour + keeps)
		require.Equal(q, "1", q.polls(they, theirs)[4])
		require.Equal(q, digits(q.clock+life), q.replied(they)[:16])
		require.Equal(q, q.owns(), q.polls(we, ours)[4])
		require.Equal(q, q.left(2, ""), q.leaves(theirs))
	})
}

func TestEnterWritesNothingWhenMemoryIsFull(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare   func(q *queued)
		isRefused bool // a try is refused as well
		kinds     []string
	}{
		"Free":     {prepare: func(*queued) {}, isRefused: true},
		"Released": {prepare: func(q *queued) { q.has(theirs); q.leaves(theirs) }, isRefused: true},
		"Shared":   {prepare: func(q *queued) { q.tries(theirs) }, isRefused: true, kinds: []string{readerQueue}},
		"Held":     {prepare: func(q *queued) { q.has(theirs) }},
		"Queued":   {prepare: func(q *queued) { q.has(theirs); q.queues(holdOf("c")) }},
	} {
		for _, queues := range []string{"0", "1"} {
			t.Run(name+queues, func(t *testing.T) {
				t.Parallel()
				eachQueueAt(t, func(q *queued) {
					c.prepare(q)
					q.fill()
					unchanged := q.unchanged()
					reply, err := q.tryKeys(q.enter, q.all, q.enterArgs(ours, queues, q.next())...)
					unchanged()
					if queues == "0" && !c.isRefused {
						require.NoError(q, err)
						require.Equal(q, int64(0), first(reply))
						return
					}
					require.ErrorContains(q, err, "OOM")
				}, c.kinds...)
			})
		}
	}
}

// P10: a message that is denied must not turn a done release into an error.
func TestDeniedMessageFailsNoHandOff(t *testing.T) {
	t.Parallel()
	rights := []string{
		"+time", "+get", "+set", "+del", "+exists", "+pexpire", "+zmscore", "+zscore", "+zrange", "+zcard", "+zadd", "+zrem", "+zpopmin",
		"+hget", "+hmget", "+hset", "+hdel", "+hlen",
	}
	for verb, call := range map[string]struct {
		call  func(q *queued) (*scripts.Script, []any)
		kinds []string
	}{
		"Leave": {call: func(q *queued) (*scripts.Script, []any) { return q.leave, q.leaveArgs(theirs) }},
		"Poll": {call: func(q *queued) (*scripts.Script, []any) {
			q.queues(holdOf("c"))
			q.drops(theirs)
			return q.poll, q.pollArgs(session("c"), holdOf("c"))
		}},
		"Force": {
			call:  func(q *queued) (*scripts.Script, []any) { return scripts.RWLockForce, q.rw.forceArgs(theirs) },
			kinds: []string{readerQueue, writerQueue},
		},
		"Downgrade": {
			call:  func(q *queued) (*scripts.Script, []any) { return scripts.RWLockDowngrade, q.leaveArgs(theirs) },
			kinds: []string{readerQueue},
		},
	} {
		for denied, more := range map[string][]string{"Command": nil, "Channel": {"+publish"}} {
			t.Run(fmt.Sprint(verb, denied), func(t *testing.T) {
				t.Parallel()
				eachQueueAt(t, func(q *queued) {
					q.has(theirs)
					q.queues(ours)
					script, args := call.call(q)
					reply, err := q.as(append(rights, more...)...).tryKeys(script, q.all, args...)
					require.NoError(q, err)
					require.Equal(q, int64(1), first(reply))
					require.Contains(q, q.held(), ours)
				}, call.kinds...)
			})
		}
	}
}

// A right that is missing says nothing of the hold: it must not be taken for lost.
func TestDeniedRenewalDoesNotSayThatAHoldIsGone(t *testing.T) {
	t.Parallel()
	for kind, all := range map[string][][]string{
		lockQueue: {{}, {"+get"}, {"+pexpire"}},
		permitQueue: {
			{}, {"+time"}, {"+time", "+zscore"}, {"+time", "+zscore", "+zadd"}, {"+time", "+zscore", "+pexpire"},
		},
	} {
		for _, rights := range all {
			t.Run(fmt.Sprint(kind, rights), func(t *testing.T) {
				t.Parallel()
				q := queuedOf(newFixtureAt(t), kind)
				q.has(ours)
				script := scripts.HoldsRenew
				if kind == lockQueue {
					script = scripts.HolderRenew
				}
				require.Equal(t, int64(-8), q.as(rights...).run(script, q.member(ours), 3600000))
				if kind == lockQueue {
					require.Equal(t, until(ours, noon+lease*1000), q.held())
				}
			})
		}
	}
}
