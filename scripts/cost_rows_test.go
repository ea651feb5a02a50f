// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"slices"
	"strings"
	"time"

	"github.com/signalbox-go/signalbox/scripts"
)

// bound returns how much a call has to do at most beside a crowd, of whatever size: a search passes
// over eight pages of tickets that are dead or do not listen; a thousand ended holds are taken out at once; 128 attempts are
// granted.
func bound(crowd string) int {
	switch {
	case strings.HasPrefix(crowd, "Dead"), strings.HasPrefix(crowd, "Gone"):
		return 300 + 8*128*7
	case strings.HasPrefix(crowd, "Unsubscribed"):
		return 300 + 8*128*9
	case strings.HasPrefix(crowd, "Ended"):
		return 300 + 2*1000
	case strings.HasPrefix(crowd, "Alive"):
		return 300 + 128*28
	}
	return 150
}

func costRows() []costRow {
	return slices.Concat(plainCosts(), rwCosts(), permitCosts(), latchCosts(), electionCosts(), onceCosts(), lockCosts(), setnxCosts(), redissonCosts(), redissonPermitCosts(), shardCosts())
}

// setTo returns what fills a key of one hold.
func setTo(value string) func(m *measured, n int) {
	return func(m *measured, _ int) { m.set(value, time.Minute) }
}

// readers fills the key of a read-write lock with readers that have the lock until then.
func readers(until int64) func(m *measured, n int) {
	return func(m *measured, n int) { m.heldBy(n, "lock", "", until, "sb1w", 0, "phase", alive, ours+label) }
}

// plainCosts are the rows of scripts without a queue.
func plainCosts() []costRow {
	voted := setTo(votedFor(ours, noon, ""))
	return []costRow{
		{script: scripts.SessionHello, crowd: "Nothing", base: 40, sizes: []int{1}, keys: on("lock"), args: with()},
		{script: scripts.SessionRewrite, crowd: "Nothing", base: 40, sizes: []int{1}, fill: voted, keys: on("lock"), args: with()},
		{script: scripts.SessionProbeSlots, crowd: "Batch", base: 10, each: 2, sizes: batches(), fill: voted, keys: many("lock"), args: with()},
		{script: scripts.SessionReadString, crowd: "Nothing", base: 40, sizes: []int{1}, fill: voted, keys: on("lock"), args: with(20)},
		{script: scripts.HolderDescribe, crowd: "Readers", base: 40, fill: readers(alive), keys: on("lock"), args: with()},
		{script: scripts.HolderForce, crowd: "Nothing", base: 40, sizes: []int{1}, fill: voted, keys: on("lock"), args: with(ours, "PUBLISH", "c", "t", keepMS)},
		{script: scripts.HolderRenew, crowd: "Batch", each: 10, sizes: batches(), fill: voted, keys: many("lock"), args: each(ours, lease)},
		{script: scripts.HoldsRenew, crowd: "Batch", base: 10, each: 16, sizes: batches(), fill: readers(alive), keys: many("lock"), args: each(manyHold(1)+label, lease)},
		{script: scripts.HoldsRenew, crowd: "Readers", base: 40, fill: readers(alive), keys: on("lock"), args: with(manyHold(1)+label, lease)},
		{script: scripts.HoldsDrop, crowd: "Readers", base: 40, fill: readers(alive), keys: on("lock"), args: with(manyHold(1) + label)},
		{script: scripts.HoldsList, crowd: "Readers", base: 300, fill: readers(alive), keys: on("lock"), args: with("sb1w", 0, 100)},
		{
			script: scripts.RedlockAcquire, crowd: "Nothing", base: 60, sizes: []int{1}, keys: on("lock", "epoch", "fence"),
			args: with(writtenFor(ours), lease, later, "", greatest),
		},
		{script: scripts.RedlockRelease, crowd: "Nothing", base: 40, sizes: []int{1}, fill: voted, keys: on("lock"), args: with(ours, digits(noon), "PUBLISH", "c", keepMS)},
		{script: scripts.RedlockPoll, crowd: "Batch", base: 10, each: 15, sizes: batches(), fill: voted, keys: many("lock"), args: with(they)},
		{script: scripts.RedlockFence, crowd: "Nothing", base: 40, sizes: []int{1}, fill: voted, keys: on("lock", "fence"), args: with(ours, digits(noon))},
		{
			script: scripts.RedlockHeal, crowd: "Nothing", base: 80, sizes: []int{1}, keys: on("epoch", "lock", "fence"),
			args: with(later, writtenFor(ours), digits(noon), lease, greatest, digits(0), "", "1"),
		},
	}
}

// rwCosts are those of a read-write lock.
func rwCosts() (rows []costRow) {
	keys := on("lock", "writers", "readers", "rwheartbeats")
	fills := map[string]func(m *measured, n int){
		"Readers":      readers(alive),
		"EndedReaders": readers(died),
	}
	for crowd, said := range crowds() {
		for _, queue := range []string{"writers", "readers"} {
			fills[crowd+queue] = func(m *measured, n int) {
				m.queueOf(n, queue, "rwheartbeats", "", said)
				m.server.MustDo(m, "ZADD", m.key, -noon+hour, "sb1w", 1, "phase", alive, ours+label)
				m.server.MustDo(m, "PEXPIRE", m.key, 60_000)
			}
		}
	}
	enter := []any{theirs, lease * 1000, later, "1", life, heartbeatNumber(2), label, "PUBLISH", "g", keepMS}
	for crowd, fill := range fills {
		rows = append(rows,
			costRow{script: scripts.RWLockEnter, crowd: crowd + "Read", base: bound(crowd), fill: fill, keys: keys, args: with(append(slices.Clone(enter), reads)...)},
			costRow{script: scripts.RWLockEnter, crowd: crowd + "Write", base: bound(crowd), fill: fill, keys: keys, args: with(append(slices.Clone(enter), writes)...)},
			costRow{
				script: scripts.RWLockPoll, crowd: crowd, base: bound(crowd), fill: fill, keys: keys,
				args: with(they, life, heartbeatNumber(2), label, "PUBLISH", "g", attempt(theirs), keepMS),
			},
			costRow{script: scripts.RWLockLeave, crowd: crowd, base: bound(crowd), fill: fill, keys: keys, args: with(ours+label, we, "PUBLISH", "g", keepMS)},
			costRow{script: scripts.RWLockDowngrade, crowd: crowd, base: bound(crowd), fill: fill, keys: keys, args: with(ours+label, we, "PUBLISH", "g", keepMS)},
			costRow{
				script: scripts.RWLockForce, crowd: crowd, base: bound(crowd), fill: fill, keys: keys,
				args: with("PUBLISH", "g", "t", we+"\n"+ours+label+"\n", keepMS),
			},
			costRow{script: scripts.RWLockMayShare, crowd: crowd, base: bound(crowd), fill: fill, keys: keys, args: with(ours + label)},
		)
	}
	return rows
}

// permitCosts are those of a semaphore, with crowds that have permits and that wait for them.
func permitCosts() (rows []costRow) {
	const some, none = "0000000001", 0
	keys := on("permits", "permits:queue", "permits:heartbeats")
	holds := func(until int64) func(m *measured, n int) {
		return func(m *measured, n int) {
			m.heldBy(n, "permits", some, until, "sb1s", n+4, "used", n+5, "capacity", alive, ours+"0000000004"+label)
		}
	}
	waits := func(said string) func(m *measured, n int) {
		return func(m *measured, n int) {
			m.queueOf(n, "permits:queue", "permits:heartbeats", some, said)
			m.server.MustDo(m, "ZADD", m.name+"permits", -noon+hour, "sb1s", 4, "used", 2*n, "capacity", alive, ours+"0000000004"+label)
			m.server.MustDo(m, "PEXPIRE", m.name+"permits", 60_000)
		}
	}
	enter := []any{theirs + "0000000002", lease * 1000, later, "1", life, heartbeatNumber(2), label, "PUBLISH", "g", keepMS, 4, none}
	name := ours + "0000000004" + label
	fills := map[string]func(m *measured, n int){"Holds": holds(alive), "EndedHolds": holds(died)}
	for crowd, said := range crowds() {
		fills[crowd] = waits(said)
	}
	for crowd, fill := range fills {
		rows = append(rows,
			costRow{script: scripts.SemaphoreEnter, crowd: crowd, base: bound(crowd), fill: fill, keys: keys, args: with(enter...)},
			costRow{
				script: scripts.SemaphorePoll, crowd: crowd, base: bound(crowd), fill: fill, keys: keys,
				args: with(they, life, heartbeatNumber(2), label, "PUBLISH", "g", attempt(theirs)+"0000000002", keepMS),
			},
			costRow{script: scripts.SemaphoreLeave, crowd: crowd, base: bound(crowd), fill: fill, keys: keys, args: with(name, we, "PUBLISH", "g", keepMS)},
			costRow{
				script: scripts.SemaphoreYield, crowd: crowd, base: bound(crowd), fill: fill, keys: keys,
				args: with(name, lease*1000, "", we, "PUBLISH", "g", keepMS),
			},
			costRow{
				script: scripts.SemaphoreSplit, crowd: crowd, base: bound(crowd), fill: fill, keys: keys,
				args: with(holdOf("c")+"0000000001", lease*1000, later, name, we, "PUBLISH", "g", keepMS),
			},
			costRow{script: scripts.SemaphoreResize, crowd: crowd, base: bound(crowd), fill: fill, keys: keys, args: with(1_000_000, later, "PUBLISH", "g", keepMS)},
			costRow{script: scripts.SemaphoreAvailable, crowd: crowd, base: 200, each: 3, fill: fill, keys: on("permits"), args: with()},
		)
	}
	return rows
}

// latchCosts are those of a latch with a crowd of ids.
func latchCosts() []costRow {
	fill := func(m *measured, n int) {
		m.crowd(n, "HSET", "latch", ":%d", "")
		m.server.MustDo(m, "HSET", m.name+"latch", "round", latchSays(noon, "c", nonceA, noon, n+1), "past", "")
	}
	ended := func(m *measured, n int) {
		fill(m, n) // of a round that was reset, and whose ids could not be let go of
		m.server.MustDo(m, "HSET", m.name+"latch", "round", latchSays(noon, "x", nonceA, noon, n+1))
	}
	key := on("latch")
	return []costRow{
		{script: scripts.CountdownStart, crowd: "Ids", base: 60, fill: ended, keys: key, args: with(nonceB, "00000001", kept, later, "")},
		{script: scripts.CountdownCount, crowd: "Ids", base: 60, fill: fill, keys: key, args: with(digits(noon), "new", "PUBLISH", "c")},
		{script: scripts.CountdownRead, crowd: "Ids", base: 60, fill: fill, keys: key, args: with()},
		{script: scripts.CountdownReset, crowd: "Ids", base: 60, fill: fill, keys: key, args: with(nonceA, "PUBLISH", "c")},
	}
}

// electionCosts are those of an election beside a crowd of candidates.
func electionCosts() []costRow {
	fill := func(m *measured, n int) {
		m.queue(n, "queue", "heartbeats", fairMode, alive)
		m.set(lockSays(ours+fairMode, noon, "q"), time.Minute)
		m.server.MustDo(m, "SET", m.name+"leader", "sb1e"+ours+digits(1)+"x")
	}
	return []costRow{
		{script: scripts.ElectionPut, crowd: "Candidates", base: 60, fill: fill, keys: on("lock", "leader"), args: with(ours, digits(2), "y", lease, "PUBLISH", "c")},
		{script: scripts.ElectionClear, crowd: "Candidates", base: 40, fill: fill, keys: on("leader"), args: with(ours, "PUBLISH", "c")},
		{script: scripts.ElectionRead, crowd: "Candidates", base: 40, fill: fill, keys: on("leader"), args: with()},
		{
			script: scripts.ElectionMove, crowd: "Candidates", base: 100, each: 3, sizes: batches(), fill: fill, keys: on("lock", "queue", "heartbeats"),
			args: with(ours, holdOf("z")[:22], 5_000_000, later),
		},
		{script: scripts.ElectionRequested, crowd: "Candidates", base: 40, fill: fill, keys: on("heartbeats"), args: with(ours)},
	}
}

// onceCosts are those of an outcome, beside a crowd that waits for its lock.
func onceCosts() []costRow {
	fill := func(m *measured, n int) {
		m.queue(n, "queue", "heartbeats", "r", alive)
		m.set(lockSays(ours+"f", noon, "q"), time.Minute)
	}
	stored := func(m *measured, n int) {
		fill(m, n)
		m.server.MustDo(m, "SET", m.name+"once", outcomeOf(noon, "x"), "PX", keepMS)
	}
	keys := on("once", "lock")
	return []costRow{
		{script: scripts.OnceRead, crowd: "Alive", base: 20, fill: stored, keys: on("once"), args: with()},
		{script: scripts.OnceStore, crowd: "Alive", base: 20, fill: fill, keys: keys, args: with(digits(noon), keepMS, "x", "PUBLISH", "c", ours)},
		{script: scripts.OnceForget, crowd: "Alive", base: 20, fill: stored, keys: on("once"), args: with(digits(noon))},
	}
}

// natives is a hold of a lock by SET with NX.
const natives = "AAECAwQFBgcICQoLDA0ODwAAAAAAAAAAAAAAAAAAA"

// setnxCosts are the rows of locks that others write by SET with NX.
func setnxCosts() []costRow {
	held := func(m *measured, _ int) { m.server.MustDo(m, "SET", m.key, natives, "PX", 20_000) }
	return []costRow{
		{script: scripts.Load("setnx/acquire", 1), crowd: "Nothing", base: 40, sizes: []int{1}, keys: on("lock"), args: with(natives, lease, later, "PUBLISH", "c", "1")},
		{script: scripts.Load("setnx/release", 1), crowd: "Nothing", base: 40, sizes: []int{1}, fill: held, keys: on("lock"), args: with(natives, "PUBLISH", "c")},
		{script: scripts.Load("setnx/poll", 1), crowd: "Batch", each: 20, sizes: batches(), fill: held, keys: many("lock"), args: with("")},
		{script: scripts.Load("setnx/renew", 1), crowd: "Batch", each: 20, sizes: batches(), fill: held, keys: many("lock"), args: each(natives, lease)},
		{script: scripts.Load("setnx/describe", 1), crowd: "Nothing", base: 40, sizes: []int{1}, fill: held, keys: on("lock"), args: with()},
		{script: scripts.Load("setnx/force", 1), crowd: "Nothing", base: 40, sizes: []int{1}, fill: held, keys: on("lock"), args: with(natives, "PUBLISH", "c", "t")},
	}
}
