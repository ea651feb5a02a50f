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

// wait is what a place in Redisson's line is good for, in ms, and at what time the lines here begin.
const wait, noonMS = int64(300_000), noon / 1000

// javaLine is a lock as RedissonFairLock has it.
type javaLine struct {
	*place

	wait int64 // fairLockWaitTimeout
}

func newJavaLine(tb testing.TB) javaLine {
	tb.Helper()
	return javaLine{newPlace(tb), wait}
}

func (l javaLine) keys() []string { return []string{l.key, l.key + ":queue", l.key + ":deadlines"} }

func (l javaLine) told() string { return l.channel + ":" }

// goes returns the hold of the n-th session of this library.
func goes(n int) string {
	return fmt.Sprintf("00010203-0405-0607-0809-0a0b0c0d0e0f:%d", int64(1_000_000_000_000_000_000)+int64(n))
}

func (l javaLine) do(script *scripts.Script, args ...any) any {
	l.Helper()
	reply, err := l.tryKeys(script, l.keys(), args...)
	require.NoError(l, err)
	return reply
}

func (l javaLine) enter(hold, waits string) any {
	l.Helper()
	return l.do(scripts.RedissonFairAcquire, hold, time.Minute.Milliseconds(), later, "PUBLISH", l.told(), waits, l.wait)
}

func (l javaLine) leave(hold string) any {
	l.Helper()
	return l.do(scripts.RedissonFairRelease, hold, "PUBLISH", l.told(), l.wait)
}

// stand puts a hold at the end of the queue.
func (l javaLine) stand(hold string, deadline int64) {
	l.Helper()
	l.server.MustDo(l, "RPUSH", l.keys()[1], hold)
	l.server.MustDo(l, "ZADD", l.keys()[2], deadline, hold)
}

// line returns the queue, and by how many ms the deadline of each waiter is after noon.
func (l javaLine) line() (line []string) {
	l.Helper()
	owners, _ := l.server.MustDo(l, "LRANGE", l.keys()[1], 0, -1).([]any)
	for _, owner := range owners {
		text, _ := l.server.MustDo(l, "ZSCORE", l.keys()[2], owner).(string)
		deadline, err := strconv.ParseInt(text, 10, 64)
		require.NoError(l, err, owner)
		line = append(line, fmt.Sprintf("%v %d", owner, deadline-noonMS))
	}
	require.Equal(l, int64(len(owners)), l.server.MustDo(l, "ZCARD", l.keys()[2]), "as many deadlines as places")
	return line
}

func at(hold string, deadline int64) string { return fmt.Sprintf("%s %d", hold, deadline) }

// P1, P5: without a queue it is acquired once, also by a try.
func TestAFairLockOfRedissonsIsAcquiredWithoutAQueue(t *testing.T) {
	t.Parallel()
	for _, waits := range []string{"0", "1"} {
		l := newJavaLine(t)
		for range 2 {
			require.Equal(t, []any{int64(1), digits(noon)}, l.enter(gos, waits))
			require.Equal(t, map[string]string{gos: "1"}, l.fields())
		}
		l.requireLife(time.Minute)
		require.Empty(t, l.line())
		require.Equal(t, []any{int64(1), digits(noon)}, l.leave(gos))
		require.Equal(t, []any{int64(0), digits(noon)}, l.leave(gos))
		require.Equal(t, int64(0), l.server.MustDo(t, "EXISTS", l.key, l.keys()[1], l.keys()[2]))
	}
}

// The deadlines are Java's: each is a wait after that of the one before, the first after the end of the lock; a grant, and one who leaves, take
// a wait off those behind.
func TestDeadlinesInTheLineOfRedissonsAreChained(t *testing.T) {
	t.Parallel()
	l := newJavaLine(t)
	l.has(javas, "1", time.Hour)
	l.server.MustDo(t, "PERSIST", l.key) // which counts as no time
	for n := range 4 {
		require.Equal(t, []any{int64(0), int64(-1), digits(noon)}, l.enter(goes(n), "1"))
	}
	require.Equal(t, []string{at(goes(0), wait), at(goes(1), 2*wait), at(goes(2), 3*wait), at(goes(3), 4*wait)}, l.line())
	require.Equal(t, []any{int64(0), int64(-1), digits(noon)}, l.enter(goes(0), "1"), "sent again it stays")
	require.Equal(t, []any{int64(0), int64(-1), digits(noon)}, l.enter(goes(9), "0"), "who tries does not queue")
	require.Equal(t, []any{int64(0), digits(noon)}, l.leave(goes(1)))
	require.Equal(t, []string{at(goes(0), wait), at(goes(2), 2*wait), at(goes(3), 3*wait)}, l.line())
	l.server.MustDo(t, "DEL", l.key)
	require.Equal(t, []any{int64(0), int64(-2), digits(noon)}, l.enter(goes(2), "1"), "not the first")
	require.Equal(t, []any{int64(1), digits(noon)}, l.enter(goes(0), "1"))
	require.Equal(t, []string{at(goes(2), wait), at(goes(3), 2*wait)}, l.line())
	l.requireLife(time.Minute)
	reply, _ := l.enter(goes(4), "1").([]any)
	require.Positive(t, reply[1])
	require.Equal(t, []string{at(goes(2), wait), at(goes(3), 2*wait), at(goes(4), 3*wait)}, l.line())
}

// A ticket is valid for the fairLockWaitTimeout of the Java clients: in the chain, at a grant, for
// a waiter that gives up, and for one that asks again.
func TestAPlaceInTheLineOfRedissonsIsGoodForJavasTimeout(t *testing.T) {
	t.Parallel()
	l := newJavaLine(t)
	const short = 4000
	l.wait = short
	l.has(javas, "1", time.Hour)
	l.server.MustDo(t, "PERSIST", l.key)
	for n := range 4 {
		l.enter(goes(n), "1")
	}
	require.Equal(t, []string{at(goes(0), short), at(goes(1), 2*short), at(goes(2), 3*short), at(goes(3), 4*short)}, l.line())
	l.leave(goes(1))
	require.Equal(t, []string{at(goes(0), short), at(goes(2), 2*short), at(goes(3), 3*short)}, l.line())
	l.clock += (short/2 + 1) * 1000
	l.enter(goes(2), "1")
	require.Equal(t, []string{at(goes(0), short), at(goes(2), 2*short+short/2+1), at(goes(3), 3*short)}, l.line())
	l.server.MustDo(t, "DEL", l.key)
	require.Equal(t, int64(1), l.enter(goes(0), "1").([]any)[0])
	require.Equal(t, []string{at(goes(2), short+short/2+1), at(goes(3), 2*short)}, l.line())
}

// P6: the first waiter alone is notified, also if it has missed a message before.
func TestTheFirstWaiterOfRedissonsIsNotified(t *testing.T) {
	t.Parallel()
	l := newJavaLine(t)
	first, second := l.listenTo(l.told()+javas), l.listenTo(l.told()+goes(1))
	require.Equal(t, int64(1), l.enter(goes(0), "1").([]any)[0])
	l.stand(javas, noonMS+wait)
	l.enter(goes(1), "1")
	require.Empty(t, first.heard())
	require.Equal(t, int64(1), l.leave(goes(0)).([]any)[0])
	require.Equal(t, []string{"0"}, first.heard())
	l.enter(goes(1), "1")
	require.Equal(t, []string{"0"}, first.heard(), "nobody has it, and the first has not come")
	require.Equal(t, int64(0), l.leave(javas).([]any)[0])
	require.Equal(t, []string{"0"}, second.heard(), "the first has gone, and the lock is free")
	l.has(goes(5), "1", time.Minute)
	l.stand(javas, noonMS+wait)
	l.leave(javas)
	require.Empty(t, second.heard(), "the lock is not free")
}

// The first waiter loses its place at its deadline, as in Java, and is notified, so that it queues again. The sender lives.
func TestAPlaceInTheLineOfRedissonsIsLostAtItsDeadline(t *testing.T) {
	t.Parallel()
	l := newJavaLine(t)
	l.has(javas, "1", time.Hour)
	stale := l.listenTo(l.told() + goes(0))
	l.stand(goes(0), noonMS)
	l.server.MustDo(t, "RPUSH", l.keys()[1], "nobody") // without a deadline
	l.stand(goes(1), noonMS)
	l.stand(goes(2), noonMS-1)
	l.enter(goes(1), "1")
	require.Equal(t, []string{"0"}, stale.heard())
	require.Equal(t, []string{at(goes(1), wait), at(goes(2), -1)}, l.line(), "who is not the first is left alone")
	l.enter(goes(0), "1")
	require.Equal(t, []string{at(goes(1), wait), at(goes(2), -1), at(goes(0), wait)}, l.line(), "from the present at the least")
	l.leave(goes(1))
	require.Empty(t, l.line(), "each is less by a wait, and over")
	require.Equal(t, []string{"0"}, stale.heard())
}

// P6: a hold that asks again keeps its place, however long it waits: as many waits as holders are before and with it.
func TestAPlaceInTheLineOfRedissonsIsKeptByAsking(t *testing.T) {
	t.Parallel()
	l := newJavaLine(t)
	l.has(javas, "1", time.Hour)
	l.server.MustDo(t, "PERSIST", l.key)
	for n := range 3 {
		l.enter(goes(n), "1")
	}
	before := l.line()
	l.clock = noon + (wait/2)*1000
	for n := range 3 {
		l.enter(goes(n), "1")
	}
	require.Equal(t, before, l.line(), "early enough")
	l.clock += 1000
	l.enter(goes(1), "1")
	require.Equal(t, []string{at(goes(0), wait), at(goes(1), 2*wait+wait/2+1), at(goes(2), 3*wait)}, l.line())
	l.clock += 10 * wait * 1000
	for n := range 3 {
		l.enter(goes(n), "1")
	}
	now := l.clock/1000 - noonMS
	require.Equal(t, []string{at(goes(0), now+wait), at(goes(1), now+2*wait), at(goes(2), now+3*wait)}, l.line())
}

// A waiter that is lost with one of the two keys of the queue is removed from the other key, too.
func TestALineOfRedissonsThatLostAKeyIsMended(t *testing.T) {
	t.Parallel()
	for _, lost := range []int{1, 2} {
		l := newJavaLine(t)
		l.has(javas, "1", time.Hour)
		l.enter(goes(0), "1")
		l.enter(goes(1), "1")
		l.server.MustDo(t, "DEL", l.keys()[lost])
		l.enter(goes(1), "1")
		l.enter(goes(0), "1")
		require.Len(t, l.line(), 2)
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
	l := newJavaLine(t)
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
		_, err := l.tryKeys(scripts.RedissonFairAcquire, l.keys(), gos, "60000", later, "PUBLISH", l.told(), "1", wait)
		require.ErrorContains(t, err, "WRONGTYPE")
		require.Equal(t, int64(1), l.server.MustDo(t, "EXISTS", l.keys()[0], l.keys()[1], l.keys()[2]), "nothing was written")
		l.server.MustDo(t, "DEL", key)
	}
}

// P10: if memory is full no waiter is added. Holders and waiters can leave, and the lock can be forced.
func TestAFairLockOfRedissonsIsReleasedIfMemoryIsFull(t *testing.T) {
	t.Parallel()
	l := javaLine{newPlaceAt(t), wait}
	require.Equal(t, int64(1), l.enter(goes(0), "1").([]any)[0])
	for n := range 3 {
		l.enter(goes(n+1), "1")
	}
	first, told := l.listenTo(l.told()+goes(2)), l.listenTo("told")
	l.fill()
	_, err := l.tryKeys(scripts.RedissonFairAcquire, l.keys(), goes(9), "60000", later, "PUBLISH", l.told(), "1", wait)
	require.ErrorContains(t, err, "OOM")
	l.leave(goes(1))
	require.Len(t, l.line(), 2)
	require.Equal(t, int64(1), l.leave(goes(0)).([]any)[0])
	require.Equal(t, []string{"0"}, first.heard())
	require.Equal(t, int64(1), l.enter(goes(2), "1").([]any)[0], "whoever stands in line has it")
	require.Equal(t, int64(1), l.leave(goes(2)).([]any)[0])
	l.server.MustDo(t, "CONFIG", "SET", "maxmemory", "0")
	l.enter(goes(2), "1")
	l.leave(goes(2))
	l.stand(goes(2), noonMS+wait)
	l.leave(goes(3))
	l.has(javas, "2", time.Hour)
	l.fill()
	require.Equal(t, int64(0), l.do(scripts.RedissonFairForce, goes(0), "PUBLISH", l.told(), "told"))
	require.Equal(t, int64(1), l.do(scripts.RedissonFairForce, javas, "PUBLISH", l.told(), "told"))
	require.Equal(t, []string{"0"}, first.heard())
	require.Equal(t, []string{l.key}, told.heard())
	require.Empty(t, l.fields())
}

// A page says where the next begins.
func TestTheWaitersOfRedissonsAreReturnedByPages(t *testing.T) {
	t.Parallel()
	l := newJavaLine(t)
	page := func(after, count int) any {
		reply, err := l.tryKeys(scripts.RedissonFairWaiters, l.keys()[1:], after, count)
		require.NoError(t, err)
		return reply
	}
	require.Equal(t, []any{}, page(0, 2))
	l.stand(goes(0), noonMS)
	l.stand(javas, noonMS+1)
	l.stand(goes(2), noonMS+2)
	require.Equal(t, []any{goes(0), "1", int64(0), goes(0), javas, "2", int64(1), javas}, page(0, 2))
	require.Equal(t, []any{goes(2), "3", int64(1), goes(2)}, page(2, 2))
}

// P4, P10: a caller without a right is denied, and can release what it has all the same.
func TestAFairLockOfRedissonsWithoutARight(t *testing.T) {
	t.Parallel()
	for _, right := range []string{"hlen", "hget", "hset", "lindex", "lpop", "lpos", "rpush", "zadd", "zincrby", "zrange", "zrem", "zscore", "pexpire", "pttl"} {
		t.Run(right, func(t *testing.T) {
			t.Parallel()
			l := javaLine{newPlaceAt(t), wait}
			user := l.as("+@all", "-"+right)
			enter := func(hold string) error {
				_, err := user.tryKeys(scripts.RedissonFairAcquire, l.keys(), hold, "60000", later, "PUBLISH", l.told(), "1", wait)
				return err
			}
			// As the holder, the first waiter with others behind, and the last.
			l.stand(goes(0), noonMS+wait)
			l.stand(goes(1), noonMS+wait)
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
