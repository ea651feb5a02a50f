// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

// lockCosts are the rows of an exclusive lock, with crowds that wait and have died.
func lockCosts() (rows []costRow) {
	keys := on("lock", "queue", "heartbeats")
	queued := func(said, value string) func(m *measured, n int) {
		return func(m *measured, n int) {
			m.queueOf(n, "queue", "heartbeats", turnMode, said)
			m.set(value, time.Minute)
		}
	}
	mine, other := ours+turnMode, theirs+fairMode
	held, free := lockSays(mine, noon, "q"), idleSays(noon)
	enter := []any{other, lease * 1000, later, "1", life, heartbeatNumber(2), label, "PUBLISH", "g", keepMS}
	leave := []any{mine, we, "PUBLISH", "g", keepMS, digits(noon), "0"}
	requeue := []any{mine, nth("a", 7) + turnMode, lease * 1000, later, life, heartbeatNumber(2), label, "PUBLISH", "g", keepMS, digits(noon), "0"}
	poll := []any{they, life, heartbeatNumber(2), label, "PUBLISH", "g", attempt(other), keepMS}
	listed := func(said, value string) func(m *measured, n int) {
		return func(m *measured, n int) {
			queued(said, value)(m, n)
			m.server.MustDo(m, "ZADD", m.name+"queue", noon, other)
		}
	}
	for crowd, said := range crowds() {
		choice := 6 * 64 // of the foremost tickets
		if crowd != "Alive" {
			choice += bound(crowd)
		}
		rows = append(rows,
			costRow{script: scripts.LockEnter, crowd: "Held" + crowd, base: 160, fill: queued(said, held), keys: keys, args: with(enter...)},
			costRow{script: scripts.LockEnter, crowd: "Free" + crowd, base: 200 + choice, fill: queued(said, free), keys: keys, args: with(enter...)},
			costRow{script: scripts.LockPoll, crowd: "Free" + crowd, base: 200 + choice, fill: listed(said, free), keys: keys, args: with(poll...)},
			costRow{script: scripts.LockLeave, crowd: crowd, base: 100 + choice, fill: queued(said, held), keys: keys, args: with(leave...)},
			costRow{script: scripts.LockRequeue, crowd: crowd, base: 200 + choice, fill: queued(said, held), keys: keys, args: with(requeue...)},
			costRow{
				script: scripts.LockForce, crowd: crowd, base: 100 + choice, fill: queued(said, held), keys: keys,
				args: with(ours, "PUBLISH", "g", "t", keepMS),
			},
		)
	}
	return append(rows, lockBatchCosts(queued(heartbeatField(alive, 1), held), keys)...)
}

// lockBatchCosts are those of calls for many attempts, tickets or keys.
func lockBatchCosts(fill func(m *measured, n int), keys func(m *measured, n int) []string) []costRow {
	var attempts strings.Builder
	for n := range 1000 {
		attempts.WriteString(fmt.Sprintf("0%018d", n) + turnMode)
	}
	poll := []any{they, life, heartbeatNumber(2), label, "PUBLISH", "g", attempts.String(), keepMS}
	foreign := func(m *measured, n int) {
		m.queue(n, "queue", "heartbeats", "", alive) // tickets of a kind that has no mode
		m.set(lockSays(ours+turnMode, noon, "q"), time.Minute)
	}
	forgotten := func(m *measured, n int) { m.queue(n, "queue", "heartbeats", turnMode, noon-hour) }
	return []costRow{
		{script: scripts.LockPoll, crowd: "Attempts", base: 200, each: 5, most: 1000, fill: fill, keys: keys, args: with(poll...), sizes: []int{1000}},
		{script: scripts.QueueHeartbeat, crowd: "Alive", base: 160, fill: fill, keys: on("heartbeats"), args: with(they, life, heartbeatNumber(2), label)},
		{script: scripts.QueueHeartbeat, crowd: "Gone", base: 160, fill: forgotten, keys: on("heartbeats"), args: with(they, life, heartbeatNumber(2), label)},
		{script: scripts.LockWaiters, crowd: "Alive", base: 1000, fill: fill, keys: on("queue", "heartbeats"), args: with(0, 100, 42)},
		{
			script: scripts.LockHeartbeat, crowd: "Batch", base: 10, each: 25, sizes: batches(),
			fill: func(m *measured, n int) {
				fill(m, n)
				m.server.MustDo(m, "HSET", m.name+"heartbeats", they, heartbeatField(noon+1, 1))
			},
			keys: func(m *measured, n int) []string { return slices.Repeat(m.at("lock", "queue", "heartbeats"), n) },
			args: func(_ *measured, n int) []any {
				return []any{they, life, heartbeatNumber(2), strings.Repeat(digits(noon), n)}
			},
		},
		{
			script: scripts.LockLeave, crowd: "Foreign", base: 100 + 6*64 + 130*12, fill: foreign, keys: keys,
			args: with(ours+turnMode, we, "PUBLISH", "g", keepMS, "", "1"),
		},
		{
			script: scripts.LockFree, crowd: "Nothing", base: 20, sizes: []int{1}, keys: on("lock"),
			fill: setTo(lockSays(ours+turnMode, noon, "-")), args: with(ours+turnMode+"-", digits(noon), keepMS),
		},
		{
			script: scripts.LockAcquireMany, crowd: "Batch", base: 10, each: 15, sizes: batches(), keys: many("lock"),
			args: each(ours+turnMode, lease, later, label),
		},
		{
			script: scripts.LockReleaseMany, crowd: "Batch", base: 10, each: 15, sizes: batches(), keys: many("lock"),
			fill: setTo(lockSays(ours+turnMode, noon, "-")), args: each(ours+turnMode, digits(noon), keepMS),
		},
		{
			script: scripts.LockKeep, crowd: "Batch", each: 10, sizes: batches(), keys: many("lock"),
			fill: setTo(lockSays(ours+idleMode, noon, "q")), args: each(ours+idleMode, lease),
		},
	}
}

// recorded goes around a script and returns its commands in order.
const recorded = `
local server, commands = redis, {}
local redis = setmetatable({
  call = function(command, ...)
    commands[#commands + 1] = command
    return server.call(command, ...)
  end,
  pcall = function(command, ...)
    commands[#commands + 1] = command
    return server.pcall(command, ...)
  end,
}, {__index = server})
local function script()
`

const recordedEnd = `
end
script()
return table.concat(commands, ' ')
`

// commands returns what a script asks the server for.
func (q *queued) commands(script *scripts.Script, keys []string, args ...any) any {
	q.Helper()
	reply, err := q.eval(redistest.Timed+recorded+script.Source+recordedEnd, keys, append(slices.Clip(args), q.time()...)...)
	require.NoError(q, err)
	return reply
}

// The common paths ask the server for what their headers say, and for no more.
func TestCommandsOfTheCommonPathsOfALock(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(q *queued)
		call    func(q *queued) any
		want    string
	}{
		"EnterFree":     {func(*queued) {}, func(q *queued) any { return q.runs("1", "") }, "TIME GET SET"},
		"EnterReleased": {func(q *queued) { q.has(theirs); q.leaves(theirs) }, func(q *queued) any { return q.runs("1", q.next()) }, "TIME GET SET"},
		"EnterKnown": {
			func(q *queued) { q.has(theirs); q.queues(nth("a", 2)) }, func(q *queued) any { return q.runs("1", "") }, "TIME GET PTTL ZRANGE HMGET ZADD",
		},
		"TryHeld":     {func(q *queued) { q.has(theirs) }, func(q *queued) any { return q.runs("0", "") }, "TIME GET PTTL"},
		"LeaveAlone":  {func(q *queued) { q.has(ours) }, func(q *queued) any { return q.ends("1") }, "GET SET"},
		"LeaveUnsure": {func(q *queued) { q.has(ours) }, func(q *queued) any { return q.ends("0") }, "GET TIME ZREM SET"},
		"LeaveToTheNext": {
			func(q *queued) { q.has(ours); q.queues(theirs) }, func(q *queued) any { return q.ends("1") }, "GET TIME ZPOPMIN HGET SET PUBLISH",
		},
		"LeaveMarked": {
			func(q *queued) { q.has(ours); q.queues(theirs); q.leaves(theirs) }, func(q *queued) any { return q.ends("1") }, "GET TIME ZPOPMIN SET",
		},
		"RequeueAlone": {func(q *queued) { q.has(ours) }, func(q *queued) any { return q.again("1") }, "TIME GET SET"},
		"RequeueToTheNext": {
			func(q *queued) { q.has(ours); q.queues(theirs) }, func(q *queued) any { return q.again("1") },
			"TIME GET HMGET ZRANGE ZADD PUBSUB HSET PEXPIRE HLEN ZPOPMIN HGET SET PUBLISH",
		},
		"RequeueOfAKnownSession": {
			func(q *queued) { q.heartbeat(we, life, q.next()); q.has(ours); q.queues(theirs); q.clock += life / 8 },
			func(q *queued) any { return q.again("1") }, "TIME GET HMGET ZRANGE ZADD ZPOPMIN HGET SET PUBLISH",
		},
		"RequeueWithAHeartbeat": {
			func(q *queued) { q.heartbeat(we, life, q.next()); q.has(ours); q.queues(theirs); q.clock += life/8 + 1 },
			func(q *queued) any { return q.again("1") }, "TIME GET HMGET ZRANGE ZADD PUBSUB HSET ZPOPMIN HGET SET PUBLISH",
		},
		"Poll": {
			func(q *queued) { q.has(theirs); q.queues(ours, nth("a", 2)) },
			func(q *queued) any { return q.commands(q.poll, q.all, q.pollArgs(we, ours, nth("a", 2))...) },
			"TIME GET PTTL ZMSCORE HMGET PEXPIRE PUBSUB HSET",
		},
		"Wait": {
			func(q *queued) { q.has(theirs); q.queues(ours) },
			func(q *queued) any {
				return q.commands(scripts.LockHeartbeat, q.heartbeatKeys(), q.heartbeatArgs(we, noon)...)
			}, "TIME MGET EXISTS HMGET HSET",
		},
		"Renew": {func(q *queued) { q.has(ours); q.queues(theirs); q.clock += second }, func(q *queued) any {
			return q.commands(scripts.HolderRenew, q.all[:1], ours+turnMode, lease)
		}, "GET PEXPIRE"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := queuedOf(newFixture(t), lockQueue)
			c.prepare(q)
			if name == "Renew" && redistest.IsOld(t) {
				c.want = "GET PTTL PEXPIRE" // see part key/lengthen
			}
			require.Equal(t, c.want, c.call(q))
		})
	}
}

// runs returns the commands of an enter.
func (q *queued) runs(queues, number string) any {
	q.Helper()
	return q.commands(q.enter, q.all, q.enterArgs(ours, queues, number)...)
}

// ends returns the commands of a leave, which is certain or not.
func (q *queued) ends(certain string) any {
	q.Helper()
	args := q.leaveArgs(ours)
	args[6] = certain
	return q.commands(q.leave, q.all, args...)
}

// again returns the commands of a requeue.
func (q *queued) again(certain string) any {
	q.Helper()
	return q.commands(scripts.LockRequeue, q.all, q.requeueArgs(ours, nth("a", 9), certain)...)
}
