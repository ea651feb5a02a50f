// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// Holds as Redisson writes them: a client, and a thread.
const (
	gos   = "00010203-0405-0607-0809-0a0b0c0d0e0f:1000000000000000001"
	javas = "f0f1f2f3-f4f5-f6f7-f8f9-fafbfcfdfeff:77" // Java's own threads have smaller numbers
	later = "2000000000000000"                        // a stamp that no server has reached
)

// fields returns the hash of the fixture, as "field value" in no order.
func (f *fixture) fields() map[string]string {
	f.Helper()
	list, _ := f.server.MustDo(f, "HGETALL", f.key).([]any)
	fields := make(map[string]string)
	for i := 0; i < len(list); i += 2 {
		fields[fmt.Sprint(list[i])] = fmt.Sprint(list[i+1])
	}
	return fields
}

// has gives the lock to a hold, as the Java client would.
func (f *fixture) has(hold, entries string, life time.Duration) {
	f.Helper()
	f.server.MustDo(f, "HSET", f.key, hold, entries)
	f.server.MustDo(f, "PEXPIRE", f.key, life.Milliseconds())
}

func (f *fixture) acquireShared(hold, notAfter string) any {
	f.Helper()
	return f.run(scripts.Load("redisson/acquire", 1), hold, time.Minute.Milliseconds(), notAfter, "PUBLISH", f.channel, "1")
}

func (f *fixture) releaseShared(hold string) any {
	f.Helper()
	return f.run(scripts.Load("redisson/release", 1), hold, "PUBLISH", f.channel)
}

// P1, P9: one field, and a TTL; sent again it is the same hold, with a later token.
func TestASharedLockIsTakenByOneField(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	require.Equal(t, []any{int64(1), digits(noon)}, f.acquireShared(gos, later))
	f.clock++
	require.Equal(t, []any{int64(1), digits(noon + 1)}, f.acquireShared(gos, later))
	require.Equal(t, map[string]string{gos: "1"}, f.fields(), "counted once")
	f.requireLife(time.Minute)
}

// P1: one client holds it, of Java or of Go, however often.
func TestASharedLockIsHeldByOne(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.has(javas, "3", time.Hour)
	untouched := f.untouched()
	reply, _ := f.acquireShared(gos, later).([]any)
	require.Equal(t, []any{int64(0), digits(noon)}, []any{reply[0], reply[2]})
	require.LessOrEqual(t, reply[1], time.Hour.Milliseconds())
	require.Greater(t, reply[1], (time.Hour - patience).Milliseconds())
	untouched()
	f.server.MustDo(t, "PERSIST", f.key)
	reply, _ = f.acquireShared(gos, later).([]any)
	require.Equal(t, []any{int64(0), int64(-1), digits(noon)}, reply, "a key without an end is nobody's of ours")
}

func TestAnotherKindOfRedissonsIsNotTaken(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.has("mode", "read", time.Hour)
	f.server.MustDo(t, "HSET", f.key, javas, "1")
	untouched := f.untouched()
	require.Equal(t, []any{int64(-2), "w"}, f.acquireShared(gos, later))
	untouched()
	f.server.MustDo(t, "DEL", f.key)
	f.set("a text", time.Hour)
	untouched = f.untouched()
	require.Equal(t, []any{int64(-2), "?"}, f.acquireShared(gos, later))
	untouched()
}

// P1, P6: its hold alone releases it, and all waiters are notified once.
func TestASharedLockIsReleasedByItsHold(t *testing.T) {
	t.Parallel()
	for name, give := range map[string]func(f *fixture, hold string) any{
		"Release": func(f *fixture, hold string) any { return f.releaseShared(hold).([]any)[0] },
		"Force": func(f *fixture, hold string) any {
			return f.run(scripts.Load("redisson/force", 1), hold, "PUBLISH", f.channel, f.channel+":told")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixtureAt(t)
			listener, published := f.listen(), f.listenTo(f.channel+":told")
			f.has(javas, "1", time.Hour)
			untouched := f.untouched()
			require.Equal(t, int64(0), give(f, gos))
			untouched()
			f.server.MustDo(t, "DEL", f.key)
			f.has(gos, "1", time.Hour)
			f.fill() // P10
			require.Equal(t, int64(1), give(f, gos))
			require.Empty(t, f.fields())
			require.Equal(t, int64(0), give(f, gos), "a second time")
			require.Equal(t, []string{"0"}, listener.received())
			if name == "Force" {
				require.Equal(t, []string{f.key}, published.received())
			} else {
				require.Empty(t, published.received())
			}
		})
	}
}

func TestAReleaseOfASharedLockSaysIfThereIsAListener(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.has(gos, "1", time.Hour)
	require.Equal(t, []any{int64(1), digits(noon), int64(0)}, f.releaseShared(gos))
	f.listen()
	f.has(gos, "1", time.Hour)
	require.Equal(t, []any{int64(1), digits(noon), int64(1)}, f.releaseShared(gos))
	require.Equal(t, []any{int64(0), digits(noon)}, f.releaseShared(gos))
}

// P3: without a floor tokens come from the clock alone, and rise with it.
func TestTokensOfASharedLockRiseWithTheClock(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.clock = 0
	var last wire.Stamp
	for n := range 100 {
		hold := "00010203-0405-0607-0809-0a0b0c0d0e0f:" + strconv.FormatInt(1_000_000_000_000_000_000+int64(n), 10)
		reply, _ := f.acquireShared(hold, later).([]any)
		text, _ := reply[1].(string)
		now := wire.ParseStamp(text)
		require.Greater(t, now, last)
		last = now
		released, _ := f.releaseShared(hold).([]any)
		require.Equal(t, int64(1), released[0])
	}
}

func TestASharedLockIsPolled(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	require.Equal(t, int64(-2), f.run(scripts.Load("redisson/poll", 1), "0"), "free")
	f.has(javas, "1", time.Hour)
	require.InDelta(t, time.Hour.Milliseconds(), f.run(scripts.Load("redisson/poll", 1), "0"), float64(patience.Milliseconds()))
	f.server.MustDo(t, "PERSIST", f.key)
	require.Equal(t, int64(-1), f.run(scripts.Load("redisson/poll", 1), "0"))
}

// P2: a renewal lengthens the life of its own hold, and makes nothing.
func TestASharedLockIsRenewedForItsHold(t *testing.T) {
	t.Parallel()
	f := newFixtureAt(t)
	renew := func(life time.Duration) any {
		return f.run(scripts.Load("redisson/renew", 1), gos, life.Milliseconds())
	}
	require.Equal(t, int64(0), renew(time.Hour))
	require.Empty(t, f.fields())
	f.has(javas, "1", time.Minute)
	untouched := f.untouched()
	require.Equal(t, int64(0), renew(time.Hour))
	untouched()
	f.server.MustDo(t, "DEL", f.key)
	f.has(gos, "1", time.Minute)
	untouched = f.untouched()
	require.Equal(t, int64(1), renew(0), "asked only")
	untouched()
	f.fill()
	require.Equal(t, int64(1), renew(time.Hour))
	f.requireLife(time.Hour)
	f.server.MustDo(t, "CONFIG", "SET", "maxmemory", "0")
	f.set("a text", time.Minute)
	untouched = f.untouched()
	require.Equal(t, int64(0), renew(time.Hour), "no hash")
	untouched()
}

func TestAHolderOfASharedLockIsDescribed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.clock = 0
	describe := func() any {
		reply := f.run(scripts.Load("redisson/describe", 1)).([]any)
		if len(reply) > 5 {
			require.Equal(t, f.end(f.key, reply[5]), reply[5])
			reply = reply[:5]
		}
		return reply
	}
	require.Equal(t, []any{int64(0)}, describe())
	f.has(javas, "2", time.Hour)
	require.Equal(t, []any{int64(1), "r", "0000000000000000", javas, javas}, describe())
	f.server.MustDo(t, "HSET", f.key, "mode", "read")
	for range 30 {
		require.Equal(t, []any{int64(1), "w", "0000000000000000", javas, javas}, describe(), "the mode is no holder")
	}
	f.server.MustDo(t, "HDEL", f.key, javas)
	require.Equal(t, []any{int64(-2), "?"}, describe(), "a mode without a holder is no lock")
	f.server.MustDo(t, "HSET", f.key, "mode", "write", javas+":write", 1)
	require.Equal(t, []any{int64(1), "w", "0000000000000000", javas, javas}, describe())
	f.set("a text", time.Hour)
	require.Equal(t, []any{int64(-2), "?"}, describe())
}

// P9: Java names the holders of an RLock and the readers of an RReadWriteLock alike. To force the
// one leaves the other alone.
func TestForceLeavesTheOtherKindOfJavasHoldAlone(t *testing.T) {
	t.Parallel()
	j := newJavaRW(t)
	j.reads(javas, 1, time.Hour)
	unchanged := j.unchanged()
	require.Equal(t, int64(0), j.run(scripts.Load("redisson/force", 1), javas, "PUBLISH", j.channel, "told"))
	require.Equal(t, int64(0), javaQueue{j.fixture, wait}.do(scripts.Load("redisson/fair-force", 1), javas, "PUBLISH", j.channel, "told"))
	unchanged()
	j = newJavaRW(t)
	j.has(javas, "1", time.Hour)
	unchanged = j.unchanged()
	reply := j.run(scripts.Load("redisson/rwlock-force", 1), "PUBLISH", j.channel, "told:", "session\n"+javas+"\n")
	require.Equal(t, []any{int64(0)}, reply)
	unchanged()
}
