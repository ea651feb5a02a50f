// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

// javaRW is a lock as Redisson's RReadWriteLock has it.
type javaRW struct{ *fixture }

// The sides of a javaRW, as its scripts have them.
const reader, writer = "r", "w"

func newJavaRW(tb testing.TB) javaRW {
	tb.Helper()
	return javaRW{newFixture(tb)}
}

func newJavaRWAt(tb testing.TB, options ...redistest.Option) javaRW {
	tb.Helper()
	return javaRW{newFixtureAt(tb, options...)}
}

func (l javaRW) enter(hold, side string, life time.Duration) any {
	l.Helper()
	return l.run(scripts.RedissonRWAcquire, hold, life.Milliseconds(), later, "PUBLISH", l.channel, "1", side)
}

func (l javaRW) enters(hold, side string, life time.Duration) {
	l.Helper()
	require.Equal(l, []any{int64(1), digits(noon)}, l.enter(hold, side, life))
}

func (l javaRW) leave(hold string) any {
	l.Helper()
	reply, _ := l.run(scripts.RedissonRWRelease, hold, "PUBLISH", l.channel).([]any)
	require.Equal(l, digits(noon), reply[1])
	return reply[0]
}

func (l javaRW) timeout(hold string, n int) string {
	return l.key + ":" + hold + ":rwlock_timeout:" + strconv.Itoa(n)
}

// reads acquires the lock to read as the Java client does, so many times and each for life.
func (l javaRW) reads(hold string, times int, life time.Duration) {
	l.Helper()
	l.server.MustDo(l, "HSET", l.key, "mode", "read", hold, times)
	for n := range times {
		l.server.MustDo(l, "SET", l.timeout(hold, n+1), "1", "PX", life.Milliseconds())
	}
	l.server.MustDo(l, "PEXPIRE", l.key, life.Milliseconds())
}

// writes acquires the lock to write as the Java client does.
func (l javaRW) writes(hold string, life time.Duration) {
	l.Helper()
	l.server.MustDo(l, "HSET", l.key, "mode", "write", hold+":write", "1")
	l.server.MustDo(l, "PEXPIRE", l.key, life.Milliseconds())
}

// requireLasts checks that a key was given life a moment ago.
func (l javaRW) requireLasts(key string, life time.Duration) {
	l.Helper()
	ms, _ := l.server.MustDo(l, "PTTL", key).(int64)
	require.InDelta(l, life.Milliseconds(), ms, float64(patience.Milliseconds()))
}

// unchanged returns a function that checks that nothing of the lock was touched.
func (l javaRW) unchanged() func() {
	l.Helper()
	return l.unchangedKeys(func() []string {
		return l.server.Keys(strings.NewReplacer("{", "?", "}", "?", "[", "?", "]", "?").Replace(l.key) + "*")
	})
}

// P1, P5: a reader has a field, and a key beside it; sent again it lasts longer, and counts once.
func TestASharedReaderHasAFieldAndAKey(t *testing.T) {
	t.Parallel()
	l := newJavaRW(t)
	l.enters(gos, reader, time.Minute)
	l.requireLife(time.Minute)
	l.requireLasts(l.timeout(gos, 1), time.Minute)
	l.enters(gos, reader, time.Hour)
	require.Equal(t, map[string]string{"mode": "read", gos: "1"}, l.fields())
	require.Equal(t, "1", l.server.MustDo(t, "GET", l.timeout(gos, 1)))
	l.requireLasts(l.timeout(gos, 1), time.Hour)
	l.requireLife(time.Hour)
}

func TestASharedReaderHasAKeyInTheSlotOfTheLock(t *testing.T) {
	t.Parallel()
	server := serverOfOwn(t)
	for name, key := range map[string]string{"a": "{a}:", "{a}b": "{a}b:", "a{b": "a{b:"} {
		server.MustDo(t, "EVAL", scripts.RedissonRWAcquire.Source, 1, name, gos, 60_000, later, "PUBLISH", "c", "1", reader)
		require.Equal(t, "1", server.MustDo(t, "GET", key+gos+":rwlock_timeout:1"), name)
	}
}

// P1: readers are beside each other, and the hash lasts as long as the longest of them.
func TestSharedReadersAreBesideEachOther(t *testing.T) {
	t.Parallel()
	l := newJavaRW(t)
	l.reads(javas, 2, time.Hour)
	l.enters(gos, reader, time.Minute)
	require.Equal(t, map[string]string{"mode": "read", javas: "2", gos: "1"}, l.fields())
	l.requireLife(time.Hour)
	l.requireLasts(l.timeout(gos, 1), time.Minute)
	l.enters(gos, reader, 2*time.Hour)
	l.requireLife(2 * time.Hour)
}

// P1: a writer is alone.
func TestASharedWriterIsAlone(t *testing.T) {
	t.Parallel()
	l := newJavaRW(t)
	l.enters(gos, writer, time.Minute)
	require.Equal(t, map[string]string{"mode": "write", gos + ":write": "1"}, l.fields())
	l.enters(gos, writer, time.Hour)
	l.requireLife(time.Hour)
	untouched := l.unchanged()
	for _, side := range []string{reader, writer} {
		reply, _ := l.enter(javas, side, time.Minute).([]any)
		require.Equal(t, []any{int64(0), digits(noon)}, []any{reply[0], reply[2]})
		require.InDelta(t, time.Hour.Milliseconds(), reply[1], float64(patience.Milliseconds()))
	}
	untouched()
	l.server.MustDo(t, "DEL", l.key)
	l.reads(javas, 1, time.Hour)
	untouched = l.unchanged()
	reply, _ := l.enter(gos, writer, time.Minute).([]any)
	require.Equal(t, int64(0), reply[0], "beside a reader")
	untouched()
}

// P9: a key that is no read-write lock of Redisson's is reported, and not changed.
func TestWhatIsNoSharedReadWriteLockIsLeftAlone(t *testing.T) {
	t.Parallel()
	for kind, make := range map[string]func(javaRW){
		"r": func(l javaRW) { l.has(javas, "1", time.Hour) },
		"?": func(l javaRW) { l.set("a text", time.Hour) },
	} {
		l := newJavaRW(t)
		make(l)
		untouched := l.unchanged()
		wrong := []any{int64(-2), kind}
		require.Equal(t, wrong, l.enter(gos, reader, time.Minute))
		require.Equal(t, wrong, l.enter(gos, writer, time.Minute))
		require.Equal(t, wrong, l.run(scripts.RedissonRWList, "", 0, 10))
		require.Equal(t, int64(0), l.leave(gos))
		require.Equal(t, int64(0), l.run(scripts.RedissonRWRenew, gos, 60_000))
		require.Equal(t, int64(0), l.run(scripts.RedissonRWMayShare, gos))
		require.Equal(t, int64(-2), l.run(scripts.RedissonRWPoll, "0"), "the try tells")
		require.Equal(t, []any{int64(0), digits(noon)}, l.run(scripts.RedissonRWDowngrade, gos, "", "PUBLISH", l.channel))
		untouched()
	}
}

// P1, P6: the last reader's release frees the lock, and notifies the waiters. Before, the key lasts as long as the readers that are left.
func TestTheLastSharedReaderFreesTheLock(t *testing.T) {
	t.Parallel()
	l := newJavaRWAt(t)
	isListening := l.listen()
	l.reads(javas, 2, time.Minute)
	l.enters(gos, reader, time.Hour)
	other := goes(2)
	l.enters(other, reader, 10*time.Minute)
	l.fill() // P10
	require.Equal(t, int64(1), l.leave(gos))
	require.Equal(t, map[string]string{"mode": "read", javas: "2", other: "1"}, l.fields())
	l.requireLife(10 * time.Minute)
	require.Equal(t, int64(0), l.leave(gos), "a second time")
	require.Equal(t, int64(1), l.leave(other))
	l.requireLife(time.Minute)
	require.Empty(t, isListening.received())
	l.server.MustDo(t, "DEL", l.timeout(javas, 1), l.timeout(javas, 2)) // they end: it died
	l.server.MustDo(t, "CONFIG", "SET", "maxmemory", "0")
	l.enters(gos, reader, time.Hour)
	require.Equal(t, int64(1), l.leave(gos))
	require.Empty(t, l.server.Keys("*"), "one who died keeps nobody out")
	require.Equal(t, []string{"0"}, isListening.received())
}

// P1, P6: a writer's release frees the lock, and notifies all readers.
func TestASharedWriterFreesTheLock(t *testing.T) {
	t.Parallel()
	l := newJavaRWAt(t)
	isListening := l.listen()
	l.writes(javas, time.Hour)
	untouched := l.unchanged()
	require.Equal(t, int64(0), l.leave(gos))
	untouched()
	l.server.MustDo(t, "DEL", l.key)
	l.enters(gos, writer, time.Hour)
	l.fill()
	require.Equal(t, int64(1), l.leave(gos))
	require.Equal(t, int64(0), l.leave(gos))
	require.Empty(t, l.server.Keys("*"))
	require.Equal(t, []string{"1"}, isListening.received())
}

// P2: a renewal lengthens the life of its own hold, makes nothing, and takes nothing from others.
func TestASharedReadWriteLockIsRenewedForItsHold(t *testing.T) {
	t.Parallel()
	renew := func(l javaRW, life time.Duration) any {
		return l.run(scripts.RedissonRWRenew, gos, life.Milliseconds())
	}
	l := newJavaRWAt(t)
	require.Equal(t, int64(0), renew(l, time.Hour))
	l.reads(javas, 1, time.Hour)
	untouched := l.unchanged()
	require.Equal(t, int64(0), renew(l, 2*time.Hour))
	untouched()
	l.enters(gos, reader, time.Minute)
	untouched = l.unchanged()
	require.Equal(t, int64(1), renew(l, 0), "asked only")
	untouched()
	l.fill()
	require.Equal(t, int64(1), renew(l, 10*time.Minute))
	l.requireLasts(l.timeout(gos, 1), 10*time.Minute)
	l.requireLasts(l.timeout(javas, 1), time.Hour)
	l.requireLife(time.Hour)
	require.Equal(t, int64(1), renew(l, 2*time.Hour))
	l.requireLife(2 * time.Hour)
	l.server.MustDo(t, "DEL", l.timeout(gos, 1))
	require.Equal(t, int64(1), renew(l, time.Hour), "nobody was let in while it had ended")
	l.requireLasts(l.timeout(gos, 1), time.Hour)

	l = newJavaRW(t)
	l.enters(gos, writer, time.Minute)
	require.Equal(t, int64(1), renew(l, time.Hour))
	l.requireLife(time.Hour)
	require.Zero(t, l.server.MustDo(t, "EXISTS", l.timeout(gos, 1)))
}

func TestReadersOfASharedLockPoll(t *testing.T) {
	t.Parallel()
	l := newJavaRW(t)
	poll := func() any { return l.run(scripts.RedissonRWPoll, "0") }
	require.Equal(t, int64(-2), poll(), "free")
	l.writes(javas, time.Hour)
	require.InDelta(t, time.Hour.Milliseconds(), poll(), float64(patience.Milliseconds()))
	l.server.MustDo(t, "DEL", l.key)
	l.reads(javas, 1, time.Hour)
	require.Equal(t, int64(-2), poll(), "beside readers")
}

func TestASharedReaderSharesWhileItHasTheLock(t *testing.T) {
	t.Parallel()
	l := newJavaRW(t)
	require.Equal(t, int64(0), l.run(scripts.RedissonRWMayShare, gos))
	l.reads(javas, 1, time.Hour)
	require.Equal(t, int64(0), l.run(scripts.RedissonRWMayShare, gos))
	l.enters(gos, reader, time.Minute)
	require.Equal(t, int64(1), l.run(scripts.RedissonRWMayShare, gos))
}

// P5: a writer becomes a reader for the rest of its lease, and readers are notified. Sent again it is a reader.
func TestASharedWriterBecomesAReader(t *testing.T) {
	t.Parallel()
	l := newJavaRW(t)
	isListening := l.listen()
	downgrade := func() any {
		return l.run(scripts.RedissonRWDowngrade, gos, "", "PUBLISH", l.channel).([]any)[0]
	}
	require.Equal(t, int64(0), downgrade())
	l.enters(gos, writer, time.Hour)
	for range 2 {
		require.Equal(t, int64(1), downgrade())
		require.Equal(t, map[string]string{"mode": "read", gos: "1"}, l.fields())
		l.requireLasts(l.timeout(gos, 1), time.Hour)
		l.requireLife(time.Hour)
	}
	require.Equal(t, []string{"1"}, isListening.received())
	l.reads(javas, 1, time.Minute)
	require.Equal(t, int64(1), l.leave(gos), "by its name, as a writer's")
	require.Equal(t, map[string]string{"mode": "read", javas: "1"}, l.fields())
}

func TestTheHoldersOfASharedReadWriteLockAreListed(t *testing.T) {
	t.Parallel()
	l := newJavaRW(t)
	list := func(from, count int) []any { // with 0 for each stamp that is the end of the hold's key
		clock := l.clock
		l.clock = 0
		defer func() { l.clock = clock }()
		listed := l.run(scripts.RedissonRWList, "", from, count).([]any)
		for i := 2; i < len(listed); i += 2 {
			key, returned := l.key, parseStamp(t, listed[i+1])/1000
			if listed[1] != "1" {
				key = l.timeout(listed[i].(string), 1)
			}
			listed[i+1] = returned - l.end(key, returned).(int64)
		}
		return listed
	}
	require.Equal(t, []any{"", ""}, list(0, 10))
	l.writes(javas, time.Hour)
	require.Equal(t, []any{"", "1", javas, int64(0)}, list(0, 10))

	l.server.MustDo(t, "DEL", l.key)
	want := []any{"", ""}
	for n := range 4 {
		l.enters(goes(n), reader, time.Duration(n+1)*time.Hour)
		want = append(want, goes(n), int64(0))
	}
	l.server.MustDo(t, "HSET", l.key, javas, 1) // one who died
	require.Equal(t, want, list(0, 10))
	require.Equal(t, append([]any{"", ""}, want[4:8]...), list(1, 2))
	require.Equal(t, []any{"", ""}, list(4, 2))
}

// P2, P8: it takes the lock from the holds that were found, and from no others, and notifies their sessions.
func TestASharedReadWriteLockIsTakenByForce(t *testing.T) {
	t.Parallel()
	l := newJavaRW(t)
	force := func(holds ...string) any {
		text := ""
		for _, hold := range holds {
			text += "session\n" + hold + "\n"
		}
		return l.run(scripts.RedissonRWForce, "PUBLISH", l.channel, l.channel+":told:", text)
	}
	isListening, published := l.listen(), l.listenTo(l.channel+":told:session")
	l.reads(javas, 2, time.Hour)
	l.enters(gos, reader, time.Hour)
	l.enters(goes(2), reader, time.Hour)
	require.Equal(t, []any{int64(2)}, force(javas, goes(2), goes(3)))
	require.Equal(t, map[string]string{"mode": "read", gos: "1"}, l.fields())
	require.Zero(t, l.server.MustDo(t, "EXISTS", l.timeout(javas, 1), l.timeout(javas, 2), l.timeout(goes(2), 1)))
	require.Empty(t, isListening.received())
	require.Equal(t, []string{l.key}, published.received())
	require.Equal(t, []any{int64(1)}, force(gos))
	require.Empty(t, l.fields())
	l.enters(gos, writer, time.Hour)
	require.Equal(t, []any{int64(1)}, force(gos))
	require.Equal(t, []any{int64(0)}, force(gos))
	require.Empty(t, l.fields())
	require.Equal(t, []string{"0", "1"}, isListening.received(), "what it was taken from")
}
