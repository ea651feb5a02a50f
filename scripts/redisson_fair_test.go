// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

// wait is what a position in Redisson's queue is good for, in ms, and at what time the queues here begin.
const wait, noonMS = int64(300_000), noon / 1000

// javaQueue is a lock as RedissonFairLock has it.
type javaQueue struct {
	*fixture

	wait int64 // fairLockWaitTimeout
}

func newJavaQueue(tb testing.TB) javaQueue {
	tb.Helper()
	return javaQueue{newFixture(tb), wait}
}

func (j javaQueue) keys() []string { return []string{j.key, j.key + ":queue", j.key + ":deadlines"} }

func (j javaQueue) notified() string { return j.channel + ":" }

// goes returns the hold of the n-th session of this library.
func goes(n int) string {
	return fmt.Sprintf("00010203-0405-0607-0809-0a0b0c0d0e0f:%d", int64(1_000_000_000_000_000_000)+int64(n))
}

func (j javaQueue) do(script *scripts.Script, args ...any) any {
	j.Helper()
	reply, err := j.tryKeys(script, j.keys(), args...)
	require.NoError(j, err)
	return reply
}

func (j javaQueue) enter(hold, waits string) any {
	j.Helper()
	return j.do(scripts.Load("redisson/fair-acquire", 1), hold, time.Minute.Milliseconds(), later, "PUBLISH", j.notified(), waits, j.wait)
}

func (j javaQueue) leave(hold string) any {
	j.Helper()
	return j.do(scripts.Load("redisson/fair-release", 1), hold, "PUBLISH", j.notified(), j.wait)
}

// join puts a hold at the end of the queue.
func (j javaQueue) join(hold string, deadline int64) {
	j.Helper()
	j.server.MustDo(j, "RPUSH", j.keys()[1], hold)
	j.server.MustDo(j, "ZADD", j.keys()[2], deadline, hold)
}

// queue returns the queue, and by how many ms the deadline of each waiter is after noon.
func (j javaQueue) queue() (queue []string) {
	j.Helper()
	owners, _ := j.server.MustDo(j, "LRANGE", j.keys()[1], 0, -1).([]any)
	for _, owner := range owners {
		text, _ := j.server.MustDo(j, "ZSCORE", j.keys()[2], owner).(string)
		deadline, err := strconv.ParseInt(text, 10, 64)
		require.NoError(j, err, owner)
		queue = append(queue, fmt.Sprintf("%v %d", owner, deadline-noonMS))
	}
	require.Equal(j, int64(len(owners)), j.server.MustDo(j, "ZCARD", j.keys()[2]), "as many deadlines as places")
	return queue
}

func at(hold string, deadline int64) string { return fmt.Sprintf("%s %d", hold, deadline) }

// P1, P5: without a queue it is acquired once, also by a try.
func TestAFairLockOfRedissonsIsAcquiredWithoutAQueue(t *testing.T) {
	t.Parallel()
	for _, waits := range []string{"0", "1"} {
		j := newJavaQueue(t)
		for range 2 {
			require.Equal(t, []any{int64(1), digits(noon)}, j.enter(gos, waits))
			require.Equal(t, map[string]string{gos: "1"}, j.fields())
		}
		j.requireLife(time.Minute)
		require.Empty(t, j.queue())
		require.Equal(t, []any{int64(1), digits(noon)}, j.leave(gos))
		require.Equal(t, []any{int64(0), digits(noon)}, j.leave(gos))
		require.Equal(t, int64(0), j.server.MustDo(t, "EXISTS", j.key, j.keys()[1], j.keys()[2]))
	}
}

// The deadlines are Java's: each is a wait after that of the one before, the first after the end of the lock; a grant, and one who leaves, take
// a wait off those behind.
func TestDeadlinesInRedissonsQueueAreChained(t *testing.T) {
	t.Parallel()
	j := newJavaQueue(t)
	j.has(javas, "1", time.Hour)
	j.server.MustDo(t, "PERSIST", j.key) // which counts as no time
	for n := range 4 {
		require.Equal(t, []any{int64(0), int64(-1), digits(noon)}, j.enter(goes(n), "1"))
	}
	require.Equal(t, []string{at(goes(0), wait), at(goes(1), 2*wait), at(goes(2), 3*wait), at(goes(3), 4*wait)}, j.queue())
	require.Equal(t, []any{int64(0), int64(-1), digits(noon)}, j.enter(goes(0), "1"), "sent again it stays")
	require.Equal(t, []any{int64(0), int64(-1), digits(noon)}, j.enter(goes(9), "0"), "a caller that only tries does not queue")
	require.Equal(t, []any{int64(0), digits(noon)}, j.leave(goes(1)))
	require.Equal(t, []string{at(goes(0), wait), at(goes(2), 2*wait), at(goes(3), 3*wait)}, j.queue())
	j.server.MustDo(t, "DEL", j.key)
	require.Equal(t, []any{int64(0), int64(-2), digits(noon)}, j.enter(goes(2), "1"), "not the first")
	require.Equal(t, []any{int64(1), digits(noon)}, j.enter(goes(0), "1"))
	require.Equal(t, []string{at(goes(2), wait), at(goes(3), 2*wait)}, j.queue())
	j.requireLife(time.Minute)
	reply, _ := j.enter(goes(4), "1").([]any)
	require.Positive(t, reply[1])
	require.Equal(t, []string{at(goes(2), wait), at(goes(3), 2*wait), at(goes(4), 3*wait)}, j.queue())
}

// A ticket is valid for the fairLockWaitTimeout of the Java clients: in the chain, at a grant, for
// a waiter that gives up, and for one that asks again.
func TestAPositionInRedissonsQueueLastsForJavasTimeout(t *testing.T) {
	t.Parallel()
	j := newJavaQueue(t)
	const short = 4000
	j.wait = short
	j.has(javas, "1", time.Hour)
	j.server.MustDo(t, "PERSIST", j.key)
	for n := range 4 {
		j.enter(goes(n), "1")
	}
	require.Equal(t, []string{at(goes(0), short), at(goes(1), 2*short), at(goes(2), 3*short), at(goes(3), 4*short)}, j.queue())
	j.leave(goes(1))
	require.Equal(t, []string{at(goes(0), short), at(goes(2), 2*short), at(goes(3), 3*short)}, j.queue())
	j.clock += (short/2 + 1) * 1000
	j.enter(goes(2), "1")
	require.Equal(t, []string{at(goes(0), short), at(goes(2), 2*short+short/2+1), at(goes(3), 3*short)}, j.queue())
	j.server.MustDo(t, "DEL", j.key)
	require.Equal(t, int64(1), j.enter(goes(0), "1").([]any)[0])
	require.Equal(t, []string{at(goes(2), short+short/2+1), at(goes(3), 2*short)}, j.queue())
}

// P6: the first waiter alone is notified, also if it has missed a message before.
func TestTheFirstWaiterOfRedissonsIsNotified(t *testing.T) {
	t.Parallel()
	j := newJavaQueue(t)
	first, second := j.listenTo(j.notified()+javas), j.listenTo(j.notified()+goes(1))
	require.Equal(t, int64(1), j.enter(goes(0), "1").([]any)[0])
	j.join(javas, noonMS+wait)
	j.enter(goes(1), "1")
	require.Empty(t, first.received())
	require.Equal(t, int64(1), j.leave(goes(0)).([]any)[0])
	require.Equal(t, []string{"0"}, first.received())
	j.enter(goes(1), "1")
	require.Equal(t, []string{"0"}, first.received(), "nobody has it, and the first has not come")
	require.Equal(t, int64(0), j.leave(javas).([]any)[0])
	require.Equal(t, []string{"0"}, second.received(), "the first has gone, and the lock is free")
	j.has(goes(5), "1", time.Minute)
	j.join(javas, noonMS+wait)
	j.leave(javas)
	require.Empty(t, second.received(), "the lock is not free")
}

// The first waiter loses its position at its deadline, as in Java, and is notified, so that it queues again. The sender lives.
func TestAPositionInRedissonsQueueIsLostAtItsDeadline(t *testing.T) {
	t.Parallel()
	j := newJavaQueue(t)
	j.has(javas, "1", time.Hour)
	stale := j.listenTo(j.notified() + goes(0))
	j.join(goes(0), noonMS)
	j.server.MustDo(t, "RPUSH", j.keys()[1], "nobody") // without a deadline
	j.join(goes(1), noonMS)
	j.join(goes(2), noonMS-1)
	j.enter(goes(1), "1")
	require.Equal(t, []string{"0"}, stale.received())
	require.Equal(t, []string{at(goes(1), wait), at(goes(2), -1)}, j.queue(), "who is not the first is left alone")
	j.enter(goes(0), "1")
	require.Equal(t, []string{at(goes(1), wait), at(goes(2), -1), at(goes(0), wait)}, j.queue(), "from the present at the least")
	j.leave(goes(1))
	require.Empty(t, j.queue(), "each is less by a wait, and over")
	require.Equal(t, []string{"0"}, stale.received())
}

// P6: a hold that asks again keeps its position, however long it waits: as many waits as holders are before and with it.
func TestAPositionInRedissonsQueueIsKeptByAsking(t *testing.T) {
	t.Parallel()
	j := newJavaQueue(t)
	j.has(javas, "1", time.Hour)
	j.server.MustDo(t, "PERSIST", j.key)
	for n := range 3 {
		j.enter(goes(n), "1")
	}
	before := j.queue()
	j.clock = noon + (wait/2)*1000
	for n := range 3 {
		j.enter(goes(n), "1")
	}
	require.Equal(t, before, j.queue(), "early enough")
	j.clock += 1000
	j.enter(goes(1), "1")
	require.Equal(t, []string{at(goes(0), wait), at(goes(1), 2*wait+wait/2+1), at(goes(2), 3*wait)}, j.queue())
	j.clock += 10 * wait * 1000
	for n := range 3 {
		j.enter(goes(n), "1")
	}
	now := j.clock/1000 - noonMS
	require.Equal(t, []string{at(goes(0), now+wait), at(goes(1), now+2*wait), at(goes(2), now+3*wait)}, j.queue())
}

// A waiter that is lost with one of the two keys of the queue is removed from the other key, too.
func TestAQueueOfRedissonsThatLostAKeyIsMended(t *testing.T) {
	t.Parallel()
	for _, lost := range []int{1, 2} {
		j := newJavaQueue(t)
		j.has(javas, "1", time.Hour)
		j.enter(goes(0), "1")
		j.enter(goes(1), "1")
		j.server.MustDo(t, "DEL", j.keys()[lost])
		j.enter(goes(1), "1")
		j.enter(goes(0), "1")
		require.Len(t, j.queue(), 2)
		j.server.MustDo(t, "DEL", j.keys()[lost], j.key)
		require.Equal(t, int64(1), j.enter(goes(0), "1").([]any)[0])
		j.leave(goes(1))
		j.leave(goes(0))
		require.Equal(t, int64(0), j.server.MustDo(t, "EXISTS", j.key, j.keys()[1], j.keys()[2]))
	}
}

// P9.
func TestAFairLockOfRedissonsLeavesOtherKeysAlone(t *testing.T) {
	t.Parallel()
	j := newJavaQueue(t)
	j.set("a text", time.Hour)
	untouched := j.untouched()
	require.Equal(t, []any{int64(-2), "?"}, j.enter(gos, "1"))
	require.Equal(t, []any{int64(0), digits(noon)}, j.leave(gos))
	untouched()
	j.server.MustDo(t, "DEL", j.key)
	j.has("mode", "write", time.Hour)
	require.Equal(t, []any{int64(-2), "w"}, j.enter(gos, "1"))
	j.server.MustDo(t, "DEL", j.key)
	for _, key := range j.keys()[1:] {
		j.server.MustDo(t, "SET", key, "a text")
		_, err := j.tryKeys(scripts.Load("redisson/fair-acquire", 1), j.keys(), gos, "60000", later, "PUBLISH", j.notified(), "1", wait)
		require.ErrorContains(t, err, "WRONGTYPE")
		require.Equal(t, int64(1), j.server.MustDo(t, "EXISTS", j.keys()[0], j.keys()[1], j.keys()[2]), "nothing was written")
		j.server.MustDo(t, "DEL", key)
	}
}

// P10: if memory is full no waiter is added. Holders and waiters can leave, and the lock can be forced.
func TestAFairLockOfRedissonsIsReleasedIfMemoryIsFull(t *testing.T) {
	t.Parallel()
	j := javaQueue{newFixtureAt(t), wait}
	require.Equal(t, int64(1), j.enter(goes(0), "1").([]any)[0])
	for n := range 3 {
		j.enter(goes(n+1), "1")
	}
	first, published := j.listenTo(j.notified()+goes(2)), j.listenTo("told")
	j.fill()
	_, err := j.tryKeys(scripts.Load("redisson/fair-acquire", 1), j.keys(), goes(9), "60000", later, "PUBLISH", j.notified(), "1", wait)
	require.ErrorContains(t, err, "OOM")
	j.leave(goes(1))
	require.Len(t, j.queue(), 2)
	require.Equal(t, int64(1), j.leave(goes(0)).([]any)[0])
	require.Equal(t, []string{"0"}, first.received())
	require.Equal(t, int64(1), j.enter(goes(2), "1").([]any)[0], "whoever stands in line has it")
	require.Equal(t, int64(1), j.leave(goes(2)).([]any)[0])
	j.server.MustDo(t, "CONFIG", "SET", "maxmemory", "0")
	j.enter(goes(2), "1")
	j.leave(goes(2))
	j.join(goes(2), noonMS+wait)
	j.leave(goes(3))
	j.has(javas, "2", time.Hour)
	j.fill()
	require.Equal(t, int64(0), j.do(scripts.Load("redisson/fair-force", 1), goes(0), "PUBLISH", j.notified(), "told"))
	require.Equal(t, int64(1), j.do(scripts.Load("redisson/fair-force", 1), javas, "PUBLISH", j.notified(), "told"))
	require.Equal(t, []string{"0"}, first.received())
	require.Equal(t, []string{j.key}, published.received())
	require.Empty(t, j.fields())
}

// A page says where the next begins.
func TestTheWaitersOfRedissonsAreReturnedByPages(t *testing.T) {
	t.Parallel()
	j := newJavaQueue(t)
	page := func(after, count int) any {
		reply, err := j.tryKeys(scripts.Load("redisson/fair-waiters", 1), j.keys()[1:], after, count)
		require.NoError(t, err)
		return reply
	}
	require.Equal(t, []any{}, page(0, 2))
	j.join(goes(0), noonMS)
	j.join(javas, noonMS+1)
	j.join(goes(2), noonMS+2)
	require.Equal(t, []any{goes(0), "1", int64(0), goes(0), javas, "2", int64(1), javas}, page(0, 2))
	require.Equal(t, []any{goes(2), "3", int64(1), goes(2)}, page(2, 2))
}

// P4, P10: a caller without a right is denied, and can release what it has all the same.
func TestAFairLockOfRedissonsWithoutARight(t *testing.T) {
	t.Parallel()
	for _, right := range []string{"hlen", "hget", "hset", "lindex", "lpop", "lpos", "rpush", "zadd", "zincrby", "zrange", "zrem", "zscore", "pexpire", "pttl"} {
		t.Run(right, func(t *testing.T) {
			t.Parallel()
			j := javaQueue{newFixtureAt(t), wait}
			user := j.as("+@all", "-"+right)
			enter := func(hold string) error {
				_, err := user.tryKeys(scripts.Load("redisson/fair-acquire", 1), j.keys(), hold, "60000", later, "PUBLISH", j.notified(), "1", wait)
				return err
			}
			// As the holder, the first waiter with others behind, and the last.
			j.join(goes(0), noonMS+wait)
			j.join(goes(1), noonMS+wait)
			denied := enter(goes(0))
			if denied == nil {
				denied = enter(goes(1))
			}
			if denied == nil {
				denied = enter(goes(2))
			}
			requireDenied(t, denied)
			for n := range 3 {
				j.leave(goes(n))
			}
			require.Equal(t, int64(0), j.server.MustDo(t, "EXISTS", j.key, j.keys()[1], j.keys()[2]))
		})
	}
}
