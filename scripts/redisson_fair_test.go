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

func (l javaQueue) keys() []string { return []string{l.key, l.key + ":queue", l.key + ":deadlines"} }

func (l javaQueue) notified() string { return l.channel + ":" }

// goes returns the hold of the n-th session of this library.
func goes(n int) string {
	return fmt.Sprintf("00010203-0405-0607-0809-0a0b0c0d0e0f:%d", int64(1_000_000_000_000_000_000)+int64(n))
}

func (l javaQueue) do(script *scripts.Script, args ...any) any {
	l.Helper()
	reply, err := l.tryKeys(script, l.keys(), args...)
	require.NoError(l, err)
	return reply
}

func (l javaQueue) enter(hold, waits string) any {
	l.Helper()
	return l.do(scripts.RedissonFairAcquire, hold, time.Minute.Milliseconds(), later, "PUBLISH", l.notified(), waits, l.wait)
}

func (l javaQueue) leave(hold string) any {
	l.Helper()
	return l.do(scripts.RedissonFairRelease, hold, "PUBLISH", l.notified(), l.wait)
}

// join puts a hold at the end of the queue.
func (l javaQueue) join(hold string, deadline int64) {
	l.Helper()
	l.server.MustDo(l, "RPUSH", l.keys()[1], hold)
	l.server.MustDo(l, "ZADD", l.keys()[2], deadline, hold)
}

// queue returns the queue, and by how many ms the deadline of each waiter is after noon.
func (l javaQueue) queue() (queue []string) {
	l.Helper()
	owners, _ := l.server.MustDo(l, "LRANGE", l.keys()[1], 0, -1).([]any)
	for _, owner := range owners {
		text, _ := l.server.MustDo(l, "ZSCORE", l.keys()[2], owner).(string)
		deadline, err := strconv.ParseInt(text, 10, 64)
		require.NoError(l, err, owner)
		queue = append(queue, fmt.Sprintf("%v %d", owner, deadline-noonMS))
	}
	require.Equal(l, int64(len(owners)), l.server.MustDo(l, "ZCARD", l.keys()[2]), "as many deadlines as places")
	return queue
}

func at(hold string, deadline int64) string { return fmt.Sprintf("%s %d", hold, deadline) }

// P1, P5: without a queue it is acquired once, also by a try.
func TestAFairLockOfRedissonsIsAcquiredWithoutAQueue(t *testing.T) {
	t.Parallel()
	for _, waits := range []string{"0", "1"} {
		l := newJavaQueue(t)
		for range 2 {
			require.Equal(t, []any{int64(1), digits(noon)}, l.enter(gos, waits))
			require.Equal(t, map[string]string{gos: "1"}, l.fields())
		}
		l.requireLife(time.Minute)
		require.Empty(t, l.queue())
		require.Equal(t, []any{int64(1), digits(noon)}, l.leave(gos))
		require.Equal(t, []any{int64(0), digits(noon)}, l.leave(gos))
		require.Equal(t, int64(0), l.server.MustDo(t, "EXISTS", l.key, l.keys()[1], l.keys()[2]))
	}
}

// The deadlines are Java's: each is a wait after that of the one before, the first after the end of the lock; a grant, and one who leaves, take
// a wait off those behind.
func TestDeadlinesInRedissonsQueueAreChained(t *testing.T) {
	t.Parallel()
	l := newJavaQueue(t)
	l.has(javas, "1", time.Hour)
	l.server.MustDo(t, "PERSIST", l.key) // which counts as no time
	for n := range 4 {
		require.Equal(t, []any{int64(0), int64(-1), digits(noon)}, l.enter(goes(n), "1"))
	}
	require.Equal(t, []string{at(goes(0), wait), at(goes(1), 2*wait), at(goes(2), 3*wait), at(goes(3), 4*wait)}, l.queue())
	require.Equal(t, []any{int64(0), int64(-1), digits(noon)}, l.enter(goes(0), "1"), "sent again it stays")
	require.Equal(t, []any{int64(0), int64(-1), digits(noon)}, l.enter(goes(9), "0"), "who tries does not queue")
	require.Equal(t, []any{int64(0), digits(noon)}, l.leave(goes(1)))
	require.Equal(t, []string{at(goes(0), wait), at(goes(2), 2*wait), at(goes(3), 3*wait)}, l.queue())
	l.server.MustDo(t, "DEL", l.key)
	require.Equal(t, []any{int64(0), int64(-2), digits(noon)}, l.enter(goes(2), "1"), "not the first")
	require.Equal(t, []any{int64(1), digits(noon)}, l.enter(goes(0), "1"))
	require.Equal(t, []string{at(goes(2), wait), at(goes(3), 2*wait)}, l.queue())
	l.requireLife(time.Minute)
	reply, _ := l.enter(goes(4), "1").([]any)
	require.Positive(t, reply[1])
	require.Equal(t, []string{at(goes(2), wait), at(goes(3), 2*wait), at(goes(4), 3*wait)}, l.queue())
}

// A ticket is valid for the fairLockWaitTimeout of the Java clients: in the chain, at a grant, for
// a waiter that gives up, and for one that asks again.
func TestAPositionInRedissonsQueueLastsForJavasTimeout(t *testing.T) {
	t.Parallel()
	l := newJavaQueue(t)
	const short = 4000
	l.wait = short
	l.has(javas, "1", time.Hour)
	l.server.MustDo(t, "PERSIST", l.key)
	for n := range 4 {
		l.enter(goes(n), "1")
	}
	require.Equal(t, []string{at(goes(0), short), at(goes(1), 2*short), at(goes(2), 3*short), at(goes(3), 4*short)}, l.queue())
	l.leave(goes(1))
	require.Equal(t, []string{at(goes(0), short), at(goes(2), 2*short), at(goes(3), 3*short)}, l.queue())
	l.clock += (short/2 + 1) * 1000
	l.enter(goes(2), "1")
	require.Equal(t, []string{at(goes(0), short), at(goes(2), 2*short+short/2+1), at(goes(3), 3*short)}, l.queue())
	l.server.MustDo(t, "DEL", l.key)
	require.Equal(t, int64(1), l.enter(goes(0), "1").([]any)[0])
	require.Equal(t, []string{at(goes(2), short+short/2+1), at(goes(3), 2*short)}, l.queue())
}

// P6: the first waiter alone is notified, also if it has missed a message before.
func TestTheFirstWaiterOfRedissonsIsNotified(t *testing.T) {
	t.Parallel()
	l := newJavaQueue(t)
	first, second := l.listenTo(l.notified()+javas), l.listenTo(l.notified()+goes(1))
	require.Equal(t, int64(1), l.enter(goes(0), "1").([]any)[0])
	l.join(javas, noonMS+wait)
	l.enter(goes(1), "1")
	require.Empty(t, first.received())
	require.Equal(t, int64(1), l.leave(goes(0)).([]any)[0])
	require.Equal(t, []string{"0"}, first.received())
	l.enter(goes(1), "1")
	require.Equal(t, []string{"0"}, first.received(), "nobody has it, and the first has not come")
	require.Equal(t, int64(0), l.leave(javas).([]any)[0])
	require.Equal(t, []string{"0"}, second.received(), "the first has gone, and the lock is free")
	l.has(goes(5), "1", time.Minute)
	l.join(javas, noonMS+wait)
	l.leave(javas)
	require.Empty(t, second.received(), "the lock is not free")
}

// The first waiter loses its position at its deadline, as in Java, and is notified, so that it queues again. The sender lives.
func TestAPositionInRedissonsQueueIsLostAtItsDeadline(t *testing.T) {
	t.Parallel()
	l := newJavaQueue(t)
	l.has(javas, "1", time.Hour)
	stale := l.listenTo(l.notified() + goes(0))
	l.join(goes(0), noonMS)
	l.server.MustDo(t, "RPUSH", l.keys()[1], "nobody") // without a deadline
	l.join(goes(1), noonMS)
	l.join(goes(2), noonMS-1)
	l.enter(goes(1), "1")
	require.Equal(t, []string{"0"}, stale.received())
	require.Equal(t, []string{at(goes(1), wait), at(goes(2), -1)}, l.queue(), "who is not the first is left alone")
	l.enter(goes(0), "1")
	require.Equal(t, []string{at(goes(1), wait), at(goes(2), -1), at(goes(0), wait)}, l.queue(), "from the present at the least")
	l.leave(goes(1))
	require.Empty(t, l.queue(), "each is less by a wait, and over")
	require.Equal(t, []string{"0"}, stale.received())
}

// P6: a hold that asks again keeps its position, however long it waits: as many waits as holders are before and with it.
func TestAPositionInRedissonsQueueIsKeptByAsking(t *testing.T) {
	t.Parallel()
	l := newJavaQueue(t)
	l.has(javas, "1", time.Hour)
	l.server.MustDo(t, "PERSIST", l.key)
	for n := range 3 {
		l.enter(goes(n), "1")
	}
	before := l.queue()
	l.clock = noon + (wait/2)*1000
	for n := range 3 {
		l.enter(goes(n), "1")
	}
	require.Equal(t, before, l.queue(), "early enough")
	l.clock += 1000
	l.enter(goes(1), "1")
	require.Equal(t, []string{at(goes(0), wait), at(goes(1), 2*wait+wait/2+1), at(goes(2), 3*wait)}, l.queue())
	l.clock += 10 * wait * 1000
	for n := range 3 {
		l.enter(goes(n), "1")
	}
	now := l.clock/1000 - noonMS
	require.Equal(t, []string{at(goes(0), now+wait), at(goes(1), now+2*wait), at(goes(2), now+3*wait)}, l.queue())
}

// A waiter that is lost with one of the two keys of the queue is removed from the other key, too.
func TestAQueueOfRedissonsThatLostAKeyIsMended(t *testing.T) {
	t.Parallel()
	for _, lost := range []int{1, 2} {
		l := newJavaQueue(t)
		l.has(javas, "1", time.Hour)
		l.enter(goes(0), "1")
		l.enter(goes(1), "1")
		l.server.MustDo(t, "DEL", l.keys()[lost])
		l.enter(goes(1), "1")
		l.enter(goes(0), "1")
		require.Len(t, l.queue(), 2)
		l.server.MustDo(t, "DEL", l.keys()[lost], l.key)
		require.Equal(t, int64(1), l.enter(goes(0), "1").([]any)[0])
		l.leave(goes(1))
		l.leave(goes(0))
		require.Equal(t, int64(0), l.server.MustDo(t, "EXISTS", l.key, l.keys()[1], l.keys()[2]))
	}
}

// P9.
func TestAFairLockOfRedissonsLeavesOtherKeysAlone(t *testing.T) {
	t.Parallel()
	l := newJavaQueue(t)
	l.set("a text", time.Hour)
	untouched := l.untouched()
	require.Equal(t, []any{int64(-2), "?"}, l.enter(gos, "1"))
	require.Equal(t, []any{int64(0), digits(noon)}, l.leave(gos))
	untouched()
	l.server.MustDo(t, "DEL", l.key)
	l.has("mode", "write", time.Hour)
	require.Equal(t, []any{int64(-2), "w"}, l.enter(gos, "1"))
	l.server.MustDo(t, "DEL", l.key)
	for _, key := range l.keys()[1:] {
		l.server.MustDo(t, "SET", key, "a text")
		_, err := l.tryKeys(scripts.RedissonFairAcquire, l.keys(), gos, "60000", later, "PUBLISH", l.notified(), "1", wait)
		require.ErrorContains(t, err, "WRONGTYPE")
		require.Equal(t, int64(1), l.server.MustDo(t, "EXISTS", l.keys()[0], l.keys()[1], l.keys()[2]), "nothing was written")
		l.server.MustDo(t, "DEL", key)
	}
}

// P10: if memory is full no waiter is added. Holders and waiters can leave, and the lock can be forced.
func TestAFairLockOfRedissonsIsReleasedIfMemoryIsFull(t *testing.T) {
	t.Parallel()
	l := javaQueue{newFixtureAt(t), wait}
	require.Equal(t, int64(1), l.enter(goes(0), "1").([]any)[0])
	for n := range 3 {
		l.enter(goes(n+1), "1")
	}
	first, published := l.listenTo(l.notified()+goes(2)), l.listenTo("told")
	l.fill()
	_, err := l.tryKeys(scripts.RedissonFairAcquire, l.keys(), goes(9), "60000", later, "PUBLISH", l.notified(), "1", wait)
	require.ErrorContains(t, err, "OOM")
	l.leave(goes(1))
	require.Len(t, l.queue(), 2)
	require.Equal(t, int64(1), l.leave(goes(0)).([]any)[0])
	require.Equal(t, []string{"0"}, first.received())
	require.Equal(t, int64(1), l.enter(goes(2), "1").([]any)[0], "whoever stands in line has it")
	require.Equal(t, int64(1), l.leave(goes(2)).([]any)[0])
	l.server.MustDo(t, "CONFIG", "SET", "maxmemory", "0")
	l.enter(goes(2), "1")
	l.leave(goes(2))
	l.join(goes(2), noonMS+wait)
	l.leave(goes(3))
	l.has(javas, "2", time.Hour)
	l.fill()
	require.Equal(t, int64(0), l.do(scripts.RedissonFairForce, goes(0), "PUBLISH", l.notified(), "told"))
	require.Equal(t, int64(1), l.do(scripts.RedissonFairForce, javas, "PUBLISH", l.notified(), "told"))
	require.Equal(t, []string{"0"}, first.received())
	require.Equal(t, []string{l.key}, published.received())
	require.Empty(t, l.fields())
}

// A page says where the next begins.
func TestTheWaitersOfRedissonsAreReturnedByPages(t *testing.T) {
	t.Parallel()
	l := newJavaQueue(t)
	page := func(after, count int) any {
		reply, err := l.tryKeys(scripts.RedissonFairWaiters, l.keys()[1:], after, count)
		require.NoError(t, err)
		return reply
	}
	require.Equal(t, []any{}, page(0, 2))
	l.join(goes(0), noonMS)
	l.join(javas, noonMS+1)
	l.join(goes(2), noonMS+2)
	require.Equal(t, []any{goes(0), "1", int64(0), goes(0), javas, "2", int64(1), javas}, page(0, 2))
	require.Equal(t, []any{goes(2), "3", int64(1), goes(2)}, page(2, 2))
}

// P4, P10: a caller without a right is denied, and can release what it has all the same.
func TestAFairLockOfRedissonsWithoutARight(t *testing.T) {
	t.Parallel()
	for _, right := range []string{"hlen", "hget", "hset", "lindex", "lpop", "lpos", "rpush", "zadd", "zincrby", "zrange", "zrem", "zscore", "pexpire", "pttl"} {
		t.Run(right, func(t *testing.T) {
			t.Parallel()
			l := javaQueue{newFixtureAt(t), wait}
			user := l.as("+@all", "-"+right)
			enter := func(hold string) error {
				_, err := user.tryKeys(scripts.RedissonFairAcquire, l.keys(), hold, "60000", later, "PUBLISH", l.notified(), "1", wait)
				return err
			}
			// As the holder, the first waiter with others behind, and the last.
			l.join(goes(0), noonMS+wait)
			l.join(goes(1), noonMS+wait)
			denied := enter(goes(0))
			if denied == nil {
				denied = enter(goes(1))
			}
			if denied == nil {
				denied = enter(goes(2))
			}
			requireDenied(t, denied)
			for n := range 3 {
				l.leave(goes(n))
			}
			require.Equal(t, int64(0), l.server.MustDo(t, "EXISTS", l.key, l.keys()[1], l.keys()[2]))
		})
	}
}
