// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/wire"
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
		{script: wire.HelloScript, crowd: "Nothing", base: 40, sizes: []int{1}, keys: on("lock"), args: with()},
		{script: wire.RewriteScript, crowd: "Nothing", base: 40, sizes: []int{1}, fill: voted, keys: on("lock"), args: with()},
		{script: wire.ProbeSlotsScript, crowd: "Batch", base: 10, each: 2, sizes: batches(), fill: voted, keys: many("lock"), args: with()},
		{script: proto.SessionReadStringScript, crowd: "Nothing", base: 40, sizes: []int{1}, fill: voted, keys: on("lock"), args: with(20)},
		{script: proto.HolderDescribeScript, crowd: "Readers", base: 40, fill: readers(alive), keys: on("lock"), args: with()},
		{script: proto.HolderForceScript, crowd: "Nothing", base: 40, sizes: []int{1}, fill: voted, keys: on("lock"), args: with(ours, "PUBLISH", "c", "t", keepMS)},
		{script: proto.HolderRenewScript, crowd: "Batch", each: 10, sizes: batches(), fill: voted, keys: many("lock"), args: each(ours, lease)},
		{script: proto.HoldsRenewScript, crowd: "Batch", base: 10, each: 16, sizes: batches(), fill: readers(alive), keys: many("lock"), args: each(manyHold(1)+label, lease)},
		{script: proto.HoldsRenewScript, crowd: "Readers", base: 40, fill: readers(alive), keys: on("lock"), args: with(manyHold(1)+label, lease)},
		{script: proto.HoldsDropScript, crowd: "Readers", base: 40, fill: readers(alive), keys: on("lock"), args: with(manyHold(1) + label)},
		{script: proto.HoldsListScript, crowd: "Readers", base: 300, fill: readers(alive), keys: on("lock"), args: with("sb1w", 0, 100)},
		{
			script: proto.RedlockAcquireScript, crowd: "Nothing", base: 60, sizes: []int{1}, keys: on("lock", "epoch", "fence"),
			args: with(writtenFor(ours), lease, later, "", greatest),
		},
		{script: proto.RedlockReleaseScript, crowd: "Nothing", base: 40, sizes: []int{1}, fill: voted, keys: on("lock"), args: with(ours, digits(noon), "PUBLISH", "c", keepMS)},
		{script: proto.RedlockPollScript, crowd: "Batch", base: 10, each: 15, sizes: batches(), fill: voted, keys: many("lock"), args: with(they)},
		{script: proto.RedlockFenceScript, crowd: "Nothing", base: 40, sizes: []int{1}, fill: voted, keys: on("lock", "fence"), args: with(ours, digits(noon))},
		{
			script: proto.RedlockHealScript, crowd: "Nothing", base: 80, sizes: []int{1}, keys: on("epoch", "lock", "fence"),
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
			costRow{script: proto.RWLockEnterScript, crowd: crowd + "Read", base: bound(crowd), fill: fill, keys: keys, args: with(append(slices.Clone(enter), reads)...)},
			costRow{script: proto.RWLockEnterScript, crowd: crowd + "Write", base: bound(crowd), fill: fill, keys: keys, args: with(append(slices.Clone(enter), writes)...)},
			costRow{
				script: proto.RWLockPollScript, crowd: crowd, base: bound(crowd), fill: fill, keys: keys,
				args: with(they, life, heartbeatNumber(2), label, "PUBLISH", "g", attempt(theirs), keepMS),
			},
			costRow{script: proto.RWLockLeaveScript, crowd: crowd, base: bound(crowd), fill: fill, keys: keys, args: with(ours+label, we, "PUBLISH", "g", keepMS)},
			costRow{script: proto.RWLockDowngradeScript, crowd: crowd, base: bound(crowd), fill: fill, keys: keys, args: with(ours+label, we, "PUBLISH", "g", keepMS)},
			costRow{
				script: proto.RWLockForceScript, crowd: crowd, base: bound(crowd), fill: fill, keys: keys,
				args: with("PUBLISH", "g", "t", we+"\n"+ours+label+"\n", keepMS),
			},
			costRow{script: proto.RWLockMayShareScript, crowd: crowd, base: bound(crowd), fill: fill, keys: keys, args: with(ours + label)},
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
			costRow{script: proto.SemaphoreEnterScript, crowd: crowd, base: bound(crowd), fill: fill, keys: keys, args: with(enter...)},
			costRow{
				script: proto.SemaphorePollScript, crowd: crowd, base: bound(crowd), fill: fill, keys: keys,
				args: with(they, life, heartbeatNumber(2), label, "PUBLISH", "g", attempt(theirs)+"0000000002", keepMS),
			},
			costRow{script: proto.SemaphoreLeaveScript, crowd: crowd, base: bound(crowd), fill: fill, keys: keys, args: with(name, we, "PUBLISH", "g", keepMS)},
			costRow{
				script: proto.SemaphoreYieldScript, crowd: crowd, base: bound(crowd), fill: fill, keys: keys,
				args: with(name, lease*1000, "", we, "PUBLISH", "g", keepMS),
			},
			costRow{
				script: proto.SemaphoreSplitScript, crowd: crowd, base: bound(crowd), fill: fill, keys: keys,
				args: with(holdOf("c")+"0000000001", lease*1000, later, name, we, "PUBLISH", "g", keepMS),
			},
			costRow{script: proto.SemaphoreResizeScript, crowd: crowd, base: bound(crowd), fill: fill, keys: keys, args: with(1_000_000, later, "PUBLISH", "g", keepMS)},
			costRow{script: proto.SemaphoreAvailableScript, crowd: crowd, base: 200, each: 3, fill: fill, keys: on("permits"), args: with()},
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
		{script: proto.CountdownStartScript, crowd: "Ids", base: 60, fill: ended, keys: key, args: with(nonceB, "00000001", kept, later, "")},
		{script: proto.CountdownCountScript, crowd: "Ids", base: 60, fill: fill, keys: key, args: with(digits(noon), "new", "PUBLISH", "c")},
		{script: proto.CountdownReadScript, crowd: "Ids", base: 60, fill: fill, keys: key, args: with()},
		{script: proto.CountdownResetScript, crowd: "Ids", base: 60, fill: fill, keys: key, args: with(nonceA, "PUBLISH", "c")},
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
		{script: proto.ElectionPutScript, crowd: "Candidates", base: 60, fill: fill, keys: on("lock", "leader"), args: with(ours, digits(2), "y", lease, "PUBLISH", "c")},
		{script: proto.ElectionClearScript, crowd: "Candidates", base: 40, fill: fill, keys: on("leader"), args: with(ours, "PUBLISH", "c")},
		{script: proto.ElectionReadScript, crowd: "Candidates", base: 40, fill: fill, keys: on("leader"), args: with()},
		{
			script: proto.ElectionMoveScript, crowd: "Candidates", base: 100, each: 3, sizes: batches(), fill: fill, keys: on("lock", "queue", "heartbeats"),
			args: with(ours, holdOf("z")[:22], 5_000_000, later),
		},
		{script: proto.ElectionRequestedScript, crowd: "Candidates", base: 40, fill: fill, keys: on("heartbeats"), args: with(ours)},
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
		{script: proto.OnceReadScript, crowd: "Alive", base: 20, fill: stored, keys: on("once"), args: with()},
		{script: proto.OnceStoreScript, crowd: "Alive", base: 20, fill: fill, keys: keys, args: with(digits(noon), keepMS, "x", "PUBLISH", "c", ours)},
		{script: proto.OnceForgetScript, crowd: "Alive", base: 20, fill: stored, keys: on("once"), args: with(digits(noon))},
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
			costRow{script: proto.LockEnterScript, crowd: "Held" + crowd, base: 160, fill: queued(said, held), keys: keys, args: with(enter...)},
			costRow{script: proto.LockEnterScript, crowd: "Free" + crowd, base: 200 + choice, fill: queued(said, free), keys: keys, args: with(enter...)},
			costRow{script: proto.LockPollScript, crowd: "Free" + crowd, base: 200 + choice, fill: listed(said, free), keys: keys, args: with(poll...)},
			costRow{script: proto.LockLeaveScript, crowd: crowd, base: 100 + choice, fill: queued(said, held), keys: keys, args: with(leave...)},
			costRow{script: proto.LockRequeueScript, crowd: crowd, base: 200 + choice, fill: queued(said, held), keys: keys, args: with(requeue...)},
			costRow{
				script: proto.LockForceScript, crowd: crowd, base: 100 + choice, fill: queued(said, held), keys: keys,
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
		{script: proto.LockPollScript, crowd: "Attempts", base: 200, each: 5, most: 1000, fill: fill, keys: keys, args: with(poll...), sizes: []int{1000}},
		{script: proto.QueueHeartbeatScript, crowd: "Alive", base: 160, fill: fill, keys: on("heartbeats"), args: with(they, life, heartbeatNumber(2), label)},
		{script: proto.QueueHeartbeatScript, crowd: "Gone", base: 160, fill: forgotten, keys: on("heartbeats"), args: with(they, life, heartbeatNumber(2), label)},
		{script: proto.LockWaitersScript, crowd: "Alive", base: 1000, fill: fill, keys: on("queue", "heartbeats"), args: with(0, 100, 42)},
		{
			script: proto.LockHeartbeatScript, crowd: "Batch", base: 10, each: 25, sizes: batches(),
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
			script: proto.LockLeaveScript, crowd: "Foreign", base: 100 + 6*64 + 130*12, fill: foreign, keys: keys,
			args: with(ours+turnMode, we, "PUBLISH", "g", keepMS, "", "1"),
		},
		{
			script: proto.LockFreeScript, crowd: "Nothing", base: 20, sizes: []int{1}, keys: on("lock"),
			fill: setTo(lockSays(ours+turnMode, noon, "-")), args: with(ours+turnMode+"-", digits(noon), keepMS),
		},
		{
			script: proto.LockAcquireManyScript, crowd: "Batch", base: 10, each: 15, sizes: batches(), keys: many("lock"),
			args: each(ours+turnMode, lease, later, label),
		},
		{
			script: proto.LockReleaseManyScript, crowd: "Batch", base: 10, each: 15, sizes: batches(), keys: many("lock"),
			fill: setTo(lockSays(ours+turnMode, noon, "-")), args: each(ours+turnMode, digits(noon), keepMS),
		},
		{
			script: proto.LockKeepScript, crowd: "Batch", each: 10, sizes: batches(), keys: many("lock"),
			fill: setTo(lockSays(ours+idleMode, noon, "q")), args: each(ours+idleMode, lease),
		},
	}
}

// sharedHash gives the lock to a hold, as Redisson's RLock has it.
func sharedHash(m *measured, _ int) { m.has(gos, "1", patience) }

// redissonCosts are the rows of Redisson's locks.
func redissonCosts() []costRow {
	rows := []costRow{
		{script: scripts.Load("redisson/acquire", 1), crowd: "Nothing", base: 40, sizes: []int{1}, keys: on("lock"), args: with(gos, lease, later, "PUBLISH", "c", "1")},
		{script: scripts.Load("redisson/fence", 1), crowd: "Nothing", base: 40, sizes: []int{1}, keys: on("lock", "token"), args: with(gos, lease, later, "PUBLISH", "c", "1")},
		{script: scripts.Load("redisson/release", 1), crowd: "Nothing", base: 40, sizes: []int{1}, fill: sharedHash, keys: on("lock"), args: with(gos, "PUBLISH", "c")},
		{script: scripts.Load("redisson/poll", 1), crowd: "Batch", each: 20, sizes: batches(), fill: sharedHash, keys: many("lock"), args: with("")},
		{script: scripts.Load("redisson/renew", 1), crowd: "Batch", each: 20, sizes: batches(), fill: sharedHash, keys: many("lock"), args: each(gos, lease)},
		{script: scripts.Load("redisson/force", 1), crowd: "Nothing", base: 40, sizes: []int{1}, fill: sharedHash, keys: on("lock"), args: with(gos, "PUBLISH", "c", "t")},
	}
	return append(append(rows, redissonFairCosts()...), redissonRWCosts()...)
}

// redissonFairCosts are those of a RedissonFairLock with a crowd that waits. The format has no cheaper
// way to move all of them up.
func redissonFairCosts() []costRow {
	keys, wait := on("lock", "queue", "deadlines"), wait
	queue := func(deadline int64) func(m *measured, n int) {
		return func(m *measured, n int) {
			m.crowd(n, "RPUSH", "queue", goMany, "")
			m.crowd(n, "ZADD", "deadlines", goMany, strconv.FormatInt(noonMS+deadline, 10))
		}
	}
	held := func(m *measured, n int) {
		queue(wait)(m, n)
		m.has(javas, "1", patience)
	}
	first := goes(1)
	enter := func(hold, waits string) func(*measured, int) []any {
		return with(hold, lease, later, "PUBLISH", "c", waits, wait)
	}
	return []costRow{
		{script: scripts.Load("redisson/fair-acquire", 1), crowd: "WaitingAtTheHead", base: 60, each: 8, fill: queue(wait), keys: keys, args: enter(first, "1")},
		{script: scripts.Load("redisson/fair-acquire", 1), crowd: "WaitingBehind", base: 80, each: 2, fill: held, keys: keys, args: enter(goes(0), "1")},
		{script: scripts.Load("redisson/fair-acquire", 1), crowd: "Again", base: 60, each: 8, fill: held, keys: keys, args: enter(first, "1")},
		{script: scripts.Load("redisson/fair-acquire", 1), crowd: "Dead", base: 60 + 1000*20, fill: queue(-hour), keys: keys, args: enter(javas, "0")},
		{script: scripts.Load("redisson/fair-release", 1), crowd: "Waiting", base: 60, fill: held, keys: keys, args: with(javas, "PUBLISH", "c", wait)},
		{script: scripts.Load("redisson/fair-release", 1), crowd: "GivesUp", base: 60, each: 8, fill: held, keys: keys, args: with(first, "PUBLISH", "c", wait)},
		{script: scripts.Load("redisson/fair-force", 1), crowd: "Waiting", base: 60, fill: held, keys: keys, args: with(javas, "PUBLISH", "c", "t")},
		{script: scripts.Load("redisson/fair-waiters", 1), crowd: "Waiting", base: 1000, fill: held, keys: on("queue", "deadlines"), args: with(0, 100)},
	}
}

// goMany are the holds of a crowd: goes(1) is the first.
const goMany = "00010203-0405-0607-0809-0a0b0c0d0e0f:1%d"

// redissonRWCosts are those of an RReadWriteLock with a crowd that reads.
func redissonRWCosts() []costRow {
	fill := func(m *measured, n int) {
		m.crowd(n, "HSET", "lock", goMany, "1")
		m.server.MustDo(m, "HSET", m.key, "mode", "read")
	}
	key, first := on("lock"), goes(1)
	return []costRow{
		{script: scripts.Load("redisson/describe", 1), crowd: "Readers", base: 40, fill: fill, keys: key, args: with()},
		{script: scripts.Load("redisson/rwlock-acquire", 1), crowd: "Readers", base: 60, fill: fill, keys: key, args: with(javas, lease, later, "PUBLISH", "c", "0", "r")},
		{script: scripts.Load("redisson/rwlock-release", 1), crowd: "Readers", base: 60, each: 6, fill: fill, keys: key, args: with(first, "PUBLISH", "c")},
		{script: scripts.Load("redisson/rwlock-renew", 1), crowd: "Readers", base: 60, fill: fill, keys: key, args: with(first, lease)},
		{script: scripts.Load("redisson/rwlock-renew", 1), crowd: "Batch", each: 30, sizes: batches(), fill: fill, keys: many("lock"), args: each(first, lease)},
		{script: scripts.Load("redisson/rwlock-poll", 1), crowd: "Readers", base: 60, fill: fill, keys: key, args: with("")},
		{script: scripts.Load("redisson/rwlock-may-share", 1), crowd: "Readers", base: 60, fill: fill, keys: key, args: with(first)},
		{script: scripts.Load("redisson/rwlock-downgrade", 1), crowd: "Readers", base: 60, fill: fill, keys: key, args: with(first, "", "PUBLISH", "c")},
		{script: scripts.Load("redisson/rwlock-list", 1), crowd: "Readers", base: 400, each: 6, fill: fill, keys: key, args: with("", 0, 100)},
		{script: scripts.Load("redisson/rwlock-force", 1), crowd: "Readers", base: 60, fill: fill, keys: key, args: with("PUBLISH", "c", "t", we+"\n"+first+"\n")},
	}
}

// redissonPermitCosts are those of an RPermitExpirableSemaphore with a crowd of permits, and of a
// latch.
func redissonPermitCosts() (rows []costRow) {
	keys := on("permits", "timeouts")
	count := func(m *measured, _ int) { m.server.MustDo(m, "SET", m.name+"latch", 5) }
	hold, fewer := permitsHold("hold", 4), permitsHold("fewer", 2)
	ids := strings.Join([]string{permitID("hold", 1), permitID("hold", 2), permitID("hold", 3), permitID("hold", 4)}, "")
	for crowd, until := range map[string]int64{"Held": noonMS + hour, "Ended": noonMS - hour} {
		fill := func(m *measured, n int) {
			m.crowd(n, "ZADD", "timeouts", "%d", strconv.FormatInt(until-int64(n), 10))
			m.server.MustDo(m, "SET", m.name+"permits", 10)
		}
		rows = append(rows,
			costRow{script: scripts.Load("redisson/permit-acquire", 1), crowd: crowd, base: 500, fill: fill, keys: keys, args: with(hold, lease, later, "PUBLISH", "c", "0", 10, "0", "1")},
			costRow{script: scripts.Load("redisson/permit-release", 1), crowd: crowd, base: 60, fill: fill, keys: keys, args: with(hold, "PUBLISH", "c")},
			costRow{script: scripts.Load("redisson/permit-split", 1), crowd: crowd, base: 90, fill: fill, keys: keys, args: with(fewer, lease, later, hold, "PUBLISH", "c", 10, "0", "1")},
			costRow{script: scripts.Load("redisson/permit-resize", 1), crowd: crowd, base: 60, fill: fill, keys: keys, args: with(20, later, "PUBLISH", "c")},
			costRow{script: scripts.Load("redisson/permit-available", 1), crowd: crowd, base: 60, fill: fill, keys: keys, args: with()},
			costRow{script: scripts.Load("redisson/permit-list", 1), crowd: crowd, base: 300, fill: fill, keys: on("timeouts"), args: with("", 0, 100)},
			costRow{script: scripts.Load("redisson/permit-force", 1), crowd: crowd, base: 90, fill: fill, keys: keys, args: with("PUBLISH", "c", "t", we, ids)},
			costRow{script: scripts.Load("redisson/permit-renew", 1), crowd: crowd, base: 60, fill: fill, keys: on("timeouts"), args: with(hold, lease)},
		)
	}
	return append(rows,
		costRow{script: scripts.Load("redisson/latch-start", 1), crowd: "Nothing", base: 40, sizes: []int{1}, keys: on("latch"), args: with("", 5, "", later, "PUBLISH", "c")},
		costRow{script: scripts.Load("redisson/latch-count", 1), crowd: "Nothing", base: 40, sizes: []int{1}, fill: count, keys: on("latch"), args: with("", "", "PUBLISH", "c")},
		costRow{script: scripts.Load("redisson/latch-read", 1), crowd: "Nothing", base: 40, sizes: []int{1}, fill: count, keys: on("latch"), args: with("7", "PUBLISH", "c")},
		costRow{script: scripts.Load("redisson/latch-reset", 1), crowd: "Nothing", base: 40, sizes: []int{1}, fill: count, keys: on("latch"), args: with("", "PUBLISH", "c")},
	)
}

// shardKeys are the ends of a group's keys.
func shardKeys() []string {
	return []string{"shards", "shards:members", "shards:ends", "shards:donors", "shards:takers", "shards:proven", "shards:rows", "shards:index"}
}

// shardJoin is a join of a group of n shards, which have names if n is 0.
func shardJoin(id string, n int) []any {
	return []any{id, later, 60 * second, 1, mostShards, n, 0, 2 * second, 0, 0, "", label, "address", "l", n, ""}
}

// The numbers of the members that join first and next.
var firstMember, nextMember = digits(noon + 1), digits(noon + 3)

// mostShards is how many shards a group has at the most.
const mostShards = 65_536

// aShardGroup makes a group of n shards, or of mostShards, and two members, the first of which has all shards, and leaves settling to
// the next call.
func aShardGroup(m *measured, n int) {
	m.Helper()
	n = min(n, mostShards)
	keys := m.at(shardKeys()...)
	run := func(script *scripts.Script, args ...any) []any {
		reply, err := m.tryKeys(script, keys, args...)
		require.NoError(m, err)
		list, _ := reply.([]any)
		require.Equal(m, int64(1), list[0])
		return list
	}
	m.clock = noon
	run(proto.ShardsJoinScript, shardJoin(ours, n)...)
	run(proto.ShardsJoinScript, shardJoin(theirs, n)...)
	for m.clock += 2 * second; run(proto.ShardsPollScript, firstMember, digits(m.clock), "PUBLISH", "c")[3] == int64(1); {
		m.clock += 100 // more than a call grants: the next one has read all that
	}
	run(proto.ShardsPollScript, nextMember, digits(0), "PUBLISH", "c")
	m.clock += second
}

// calmShards is the same when shards may be asked for.
func calmShards(m *measured, n int) {
	aShardGroup(m, n)
	m.clock += 2 * second
}

// aNamedGroup is one whose n shards have names.
func aNamedGroup(m *measured, n int) {
	m.Helper()
	keys := m.at(shardKeys()...)
	_, err := m.tryKeys(proto.ShardsJoinScript, keys, shardJoin(ours, 0)...)
	require.NoError(m, err)
	for i := 0; i < n; i += 60 {
		names, after := namesBehind(i, min(60, n-i)), ""
		if i > 0 {
			after = fmt.Sprintf("%06d", i-1)
		}
		_, err = m.tryKeys(proto.ShardsSyncScript, keys, ours, "x", "", after, names, 0, later, "PUBLISH", "c")
		require.NoError(m, err)
	}
}

// namesBehind lists n names from the i-th on.
func namesBehind(i, n int) string {
	var text strings.Builder
	for j := range n {
		fmt.Fprintf(&text, "06%06d", i+j)
	}
	return text.String()
}

// shardCosts are the rows of groups of shards. An ask of a shard is 15 commands, and a call asks for 16.
func shardCosts() []costRow {
	const one, sixteen = 600, 4000
	keys := on(shardKeys()...)
	release := func(m *measured, _ int) []any {
		token := digits(noon)
		if row, has := m.server.MustDo(m, "HGET", m.at("shards:rows")[0], "0").(string); has {
			token = strings.Fields(row)[3]
		}
		return []any{firstMember, token + "r" + digits(0)[1:] + "010", "PUBLISH", "c"}
	}
	return []costRow{
		{script: proto.ShardsJoinScript, crowd: "Shards", base: one, fill: aShardGroup, keys: keys, args: with(shardJoin(holdOf("c"), 64)...)},
		{script: proto.ShardsPollScript, crowd: "Shards", base: one, fill: aShardGroup, keys: keys, args: with(firstMember, digits(noon+3*second), "PUBLISH", "c")},
		{script: proto.ShardsPollScript, crowd: "Requests", base: sixteen, fill: calmShards, keys: keys, args: with(nextMember, digits(0), "PUBLISH", "c")},
		{script: proto.ShardsReleaseScript, crowd: "Shards", base: one, fill: aShardGroup, keys: keys, args: release},
		{script: proto.ShardsLeaveScript, crowd: "Shards", base: sixteen, fill: aShardGroup, keys: keys, args: with(firstMember, 1, "PUBLISH", "c")},
		{script: proto.ShardsReadScript, crowd: "Shards", base: 200 + 3*512, fill: aShardGroup, keys: keys, args: with(digits(0), digits(0), digits(0), "")},
		{script: proto.ShardsSetScript, crowd: "Shards", base: one, fill: aShardGroup, keys: keys, args: with(nextMember, 2, 9, "l", "elsewhere", 1, "PUBLISH", "c")},
		{script: proto.ShardsMoveScript, crowd: "Shards", base: one, fill: aShardGroup, keys: keys, args: with("0", nextMember, later, "PUBLISH", "c")},
		{script: proto.ShardsResizeScript, crowd: "Shards", base: sixteen, fill: aShardGroup, keys: keys, args: with(9, ours, later, "PUBLISH", "c")},
		{script: proto.ShardsSyncScript, crowd: "Names", base: sixteen, fill: aNamedGroup, keys: keys, args: with(ours, "y", "", "", namesBehind(0, 9), 0, later, "PUBLISH", "c")},
		{script: proto.ShardsListScript, crowd: "Shards", base: one, fill: aShardGroup, keys: keys, args: with(10)},
		{script: proto.ShardsEndScript, crowd: "Shards", base: sixteen, fill: aShardGroup, keys: keys, args: with(firstMember, "PUBLISH", "c")},
	}
}
