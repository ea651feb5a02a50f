// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"strconv"
	"strings"

	"github.com/signalbox-go/signalbox/scripts"
)

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
