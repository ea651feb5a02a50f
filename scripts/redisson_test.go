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
func (p *fixture) fields() map[string]string {
	p.Helper()
	list, _ := p.server.MustDo(p, "HGETALL", p.key).([]any)
	fields := make(map[string]string)
	for i := 0; i < len(list); i += 2 {
		fields[fmt.Sprint(list[i])] = fmt.Sprint(list[i+1])
	}
	return fields
}

// has gives the lock to a hold, as the Java client would.
func (p *fixture) has(hold, entries string, life time.Duration) {
	p.Helper()
	p.server.MustDo(p, "HSET", p.key, hold, entries)
	p.server.MustDo(p, "PEXPIRE", p.key, life.Milliseconds())
}

func (p *fixture) acquireShared(hold, notAfter string) any {
	p.Helper()
	return p.run(scripts.RedissonAcquire, hold, time.Minute.Milliseconds(), notAfter, "PUBLISH", p.channel, "1")
}

func (p *fixture) releaseShared(hold string) any {
	p.Helper()
	return p.run(scripts.RedissonRelease, hold, "PUBLISH", p.channel)
}

// P1, P9: one field, and a TTL; sent again it is the same hold, with a later token.
func TestASharedLockIsTakenByOneField(t *testing.T) {
	t.Parallel()
	p := newFixture(t)
	require.Equal(t, []any{int64(1), digits(noon)}, p.acquireShared(gos, later))
	p.clock++
	require.Equal(t, []any{int64(1), digits(noon + 1)}, p.acquireShared(gos, later))
	require.Equal(t, map[string]string{gos: "1"}, p.fields(), "counted once")
	p.requireLife(time.Minute)
}

// P1: one client holds it, of Java or of Go, however often.
func TestASharedLockIsHeldByOne(t *testing.T) {
	t.Parallel()
	p := newFixture(t)
	p.has(javas, "3", time.Hour)
	untouched := p.untouched()
	reply, _ := p.acquireShared(gos, later).([]any)
	require.Equal(t, []any{int64(0), digits(noon)}, []any{reply[0], reply[2]})
	require.LessOrEqual(t, reply[1], time.Hour.Milliseconds())
	require.Greater(t, reply[1], (time.Hour - patience).Milliseconds())
	untouched()
	p.server.MustDo(t, "PERSIST", p.key)
	reply, _ = p.acquireShared(gos, later).([]any)
	require.Equal(t, []any{int64(0), int64(-1), digits(noon)}, reply, "a key without an end is nobody's of ours")
}

func TestAnotherKindOfRedissonsIsNotTaken(t *testing.T) {
	t.Parallel()
	p := newFixture(t)
	p.has("mode", "read", time.Hour)
	p.server.MustDo(t, "HSET", p.key, javas, "1")
	untouched := p.untouched()
	require.Equal(t, []any{int64(-2), "w"}, p.acquireShared(gos, later))
	untouched()
	p.server.MustDo(t, "DEL", p.key)
	p.set("a text", time.Hour)
	untouched = p.untouched()
	require.Equal(t, []any{int64(-2), "?"}, p.acquireShared(gos, later))
	untouched()
}

// P1, P6: its hold alone releases it, and all waiters are notified once.
func TestASharedLockIsReleasedByItsHold(t *testing.T) {
	t.Parallel()
	for name, give := range map[string]func(p *fixture, hold string) any{
		"Release": func(p *fixture, hold string) any { return p.releaseShared(hold).([]any)[0] },
		"Force": func(p *fixture, hold string) any {
			return p.run(scripts.RedissonForce, hold, "PUBLISH", p.channel, p.channel+":told")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newFixtureAt(t)
			listener, published := p.listen(), p.listenTo(p.channel+":told")
			p.has(javas, "1", time.Hour)
			untouched := p.untouched()
			require.Equal(t, int64(0), give(p, gos))
			untouched()
			p.server.MustDo(t, "DEL", p.key)
			p.has(gos, "1", time.Hour)
			p.fill() // P10
			require.Equal(t, int64(1), give(p, gos))
			require.Empty(t, p.fields())
			require.Equal(t, int64(0), give(p, gos), "a second time")
			require.Equal(t, []string{"0"}, listener.received())
			if name == "Force" {
				require.Equal(t, []string{p.key}, published.received())
			} else {
				require.Empty(t, published.received())
			}
		})
	}
}

func TestAReleaseOfASharedLockSaysIfThereIsAListener(t *testing.T) {
	t.Parallel()
	p := newFixture(t)
	p.has(gos, "1", time.Hour)
	require.Equal(t, []any{int64(1), digits(noon), int64(0)}, p.releaseShared(gos))
	p.listen()
	p.has(gos, "1", time.Hour)
	require.Equal(t, []any{int64(1), digits(noon), int64(1)}, p.releaseShared(gos))
	require.Equal(t, []any{int64(0), digits(noon)}, p.releaseShared(gos))
}

// P3: without a floor tokens come from the clock alone, and rise with it.
func TestTokensOfASharedLockRiseWithTheClock(t *testing.T) {
	t.Parallel()
	p := newFixture(t)
	p.clock = 0
	var last wire.Stamp
	for n := range 100 {
		hold := "00010203-0405-0607-0809-0a0b0c0d0e0f:" + strconv.FormatInt(1_000_000_000_000_000_000+int64(n), 10)
		reply, _ := p.acquireShared(hold, later).([]any)
		text, _ := reply[1].(string)
		now := wire.ParseStamp(text)
		require.Greater(t, now, last)
		last = now
		released, _ := p.releaseShared(hold).([]any)
		require.Equal(t, int64(1), released[0])
	}
}

func TestASharedLockIsPolled(t *testing.T) {
	t.Parallel()
	p := newFixture(t)
	require.Equal(t, int64(-2), p.run(scripts.RedissonPoll, "0"), "free")
	p.has(javas, "1", time.Hour)
	require.InDelta(t, time.Hour.Milliseconds(), p.run(scripts.RedissonPoll, "0"), float64(patience.Milliseconds()))
	p.server.MustDo(t, "PERSIST", p.key)
	require.Equal(t, int64(-1), p.run(scripts.RedissonPoll, "0"))
}

// P2: a renewal lengthens the life of its own hold, and makes nothing.
func TestASharedLockIsRenewedForItsHold(t *testing.T) {
	t.Parallel()
	p := newFixtureAt(t)
	renew := func(life time.Duration) any { return p.run(scripts.RedissonRenew, gos, life.Milliseconds()) }
	require.Equal(t, int64(0), renew(time.Hour))
	require.Empty(t, p.fields())
	p.has(javas, "1", time.Minute)
	untouched := p.untouched()
	require.Equal(t, int64(0), renew(time.Hour))
	untouched()
	p.server.MustDo(t, "DEL", p.key)
	p.has(gos, "1", time.Minute)
	untouched = p.untouched()
	require.Equal(t, int64(1), renew(0), "asked only")
	untouched()
	p.fill()
	require.Equal(t, int64(1), renew(time.Hour))
	p.requireLife(time.Hour)
	p.server.MustDo(t, "CONFIG", "SET", "maxmemory", "0")
	p.set("a text", time.Minute)
	untouched = p.untouched()
	require.Equal(t, int64(0), renew(time.Hour), "no hash")
	untouched()
}

func TestAHolderOfASharedLockIsDescribed(t *testing.T) {
	t.Parallel()
	p := newFixture(t)
	p.clock = 0
	describe := func() any {
		reply := p.run(scripts.RedissonDescribe).([]any)
		if len(reply) > 5 {
			require.Equal(t, p.end(p.key, reply[5]), reply[5])
			reply = reply[:5]
		}
		return reply
	}
	require.Equal(t, []any{int64(0)}, describe())
	p.has(javas, "2", time.Hour)
	require.Equal(t, []any{int64(1), "r", "0000000000000000", javas, javas}, describe())
	p.server.MustDo(t, "HSET", p.key, "mode", "read")
	for range 30 {
		require.Equal(t, []any{int64(1), "w", "0000000000000000", javas, javas}, describe(), "the mode is no holder")
	}
	p.server.MustDo(t, "HDEL", p.key, javas)
	require.Equal(t, []any{int64(-2), "?"}, describe(), "a mode without a holder is no lock")
	p.server.MustDo(t, "HSET", p.key, "mode", "write", javas+":write", 1)
	require.Equal(t, []any{int64(1), "w", "0000000000000000", javas, javas}, describe())
	p.set("a text", time.Hour)
	require.Equal(t, []any{int64(-2), "?"}, describe())
}

// P9: Java names the holders of an RLock and the readers of an RReadWriteLock alike. To force the
// one leaves the other alone.
func TestForceLeavesTheOtherKindOfJavasHoldAlone(t *testing.T) {
	t.Parallel()
	l := newJavaRW(t)
	l.reads(javas, 1, time.Hour)
	unchanged := l.unchanged()
	require.Equal(t, int64(0), l.run(scripts.RedissonForce, javas, "PUBLISH", l.channel, "told"))
	require.Equal(t, int64(0), javaQueue{l.fixture, wait}.do(scripts.RedissonFairForce, javas, "PUBLISH", l.channel, "told"))
	unchanged()
	l = newJavaRW(t)
	l.has(javas, "1", time.Hour)
	unchanged = l.unchanged()
	reply := l.run(scripts.RedissonRWForce, "PUBLISH", l.channel, "told:", "session\n"+javas+"\n")
	require.Equal(t, []any{int64(0)}, reply)
	unchanged()
}
