// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

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
	enter := []any{other + "-", lease, later, label, waiting("1", heartbeatNumber(2), "g")}
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
