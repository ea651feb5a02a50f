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

func (j javaRW) enter(hold, side string, life time.Duration) any {
	j.Helper()
	return j.run(scripts.Load("redisson/rwlock-acquire", 1), hold, life.Milliseconds(), later, "PUBLISH", j.channel, "1", side)
}

func (j javaRW) enters(hold, side string, life time.Duration) {
	j.Helper()
	require.Equal(j, []any{int64(1), digits(noon)}, j.enter(hold, side, life))
}

func (j javaRW) leave(hold string) any {
	j.Helper()
	reply, _ := j.run(scripts.Load("redisson/rwlock-release", 1), hold, "PUBLISH", j.channel).([]any)
	require.Equal(j, digits(noon), reply[1])
	return reply[0]
}

func (j javaRW) timeout(hold string, n int) string {
	return j.key + ":" + hold + ":rwlock_timeout:" + strconv.Itoa(n)
}

// reads acquires the lock to read as the Java client does, so many times and each for life.
func (j javaRW) reads(hold string, times int, life time.Duration) {
	j.Helper()
	j.server.MustDo(j, "HSET", j.key, "mode", "read", hold, times)
	for n := range times {
		j.server.MustDo(j, "SET", j.timeout(hold, n+1), "1", "PX", life.Milliseconds())
	}
	j.server.MustDo(j, "PEXPIRE", j.key, life.Milliseconds())
}

// writes acquires the lock to write as the Java client does.
func (j javaRW) writes(hold string, life time.Duration) {
	j.Helper()
	j.server.MustDo(j, "HSET", j.key, "mode", "write", hold+":write", "1")
	j.server.MustDo(j, "PEXPIRE", j.key, life.Milliseconds())
}

// requireLasts checks that a key was given life a moment ago.
func (j javaRW) requireLasts(key string, life time.Duration) {
	j.Helper()
	ms, _ := j.server.MustDo(j, "PTTL", key).(int64)
	require.InDelta(j, life.Milliseconds(), ms, float64(patience.Milliseconds()))
}

// unchanged returns a function that checks that nothing of the lock was touched.
func (j javaRW) unchanged() func() {
	j.Helper()
	return j.unchangedKeys(func() []string {
		return j.server.Keys(strings.NewReplacer("{", "?", "}", "?", "[", "?", "]", "?").Replace(j.key) + "*")
	})
}

// P1, P5: a reader has a field, and a key beside it; sent again it lasts longer, and counts once.
func TestASharedReaderHasAFieldAndAKey(t *testing.T) {
	t.Parallel()
	j := newJavaRW(t)
	j.enters(gos, reader, time.Minute)
	j.requireLife(time.Minute)
	j.requireLasts(j.timeout(gos, 1), time.Minute)
	j.enters(gos, reader, time.Hour)
	require.Equal(t, map[string]string{"mode": "read", gos: "1"}, j.fields())
	require.Equal(t, "1", j.server.MustDo(t, "GET", j.timeout(gos, 1)))
	j.requireLasts(j.timeout(gos, 1), time.Hour)
	j.requireLife(time.Hour)
}

func TestASharedReaderHasAKeyInTheSlotOfTheLock(t *testing.T) {
	t.Parallel()
	server := serverOfOwn(t)
	for name, key := range map[string]string{"a": "{a}:", "{a}b": "{a}b:", "a{b": "a{b:"} {
		server.MustDo(t, "EVAL", scripts.Load("redisson/rwlock-acquire", 1).Source, 1, name, gos, 60_000, later, "PUBLISH", "c", "1", reader)
		require.Equal(t, "1", server.MustDo(t, "GET", key+gos+":rwlock_timeout:1"), name)
	}
}

// P1: readers are beside each other, and the hash lasts as long as the longest of them.
func TestSharedReadersAreBesideEachOther(t *testing.T) {
	t.Parallel()
	j := newJavaRW(t)
	j.reads(javas, 2, time.Hour)
	j.enters(gos, reader, time.Minute)
	require.Equal(t, map[string]string{"mode": "read", javas: "2", gos: "1"}, j.fields())
	j.requireLife(time.Hour)
	j.requireLasts(j.timeout(gos, 1), time.Minute)
	j.enters(gos, reader, 2*time.Hour)
	j.requireLife(2 * time.Hour)
}

// P1: a writer is alone.
func TestASharedWriterIsAlone(t *testing.T) {
	t.Parallel()
	j := newJavaRW(t)
	j.enters(gos, writer, time.Minute)
	require.Equal(t, map[string]string{"mode": "write", gos + ":write": "1"}, j.fields())
	j.enters(gos, writer, time.Hour)
	j.requireLife(time.Hour)
	untouched := j.unchanged()
	for _, side := range []string{reader, writer} {
		reply, _ := j.enter(javas, side, time.Minute).([]any)
		require.Equal(t, []any{int64(0), digits(noon)}, []any{reply[0], reply[2]})
		require.InDelta(t, time.Hour.Milliseconds(), reply[1], float64(patience.Milliseconds()))
	}
	untouched()
	j.server.MustDo(t, "DEL", j.key)
	j.reads(javas, 1, time.Hour)
	untouched = j.unchanged()
	reply, _ := j.enter(gos, writer, time.Minute).([]any)
	require.Equal(t, int64(0), reply[0], "beside a reader")
	untouched()
}

// P9: a key that is no read-write lock of Redisson's is reported, and not changed.
func TestWhatIsNoSharedReadWriteLockIsLeftAlone(t *testing.T) {
	t.Parallel()
	for kind, make := range map[string]func(javaRW){
		"r": func(j javaRW) { j.has(javas, "1", time.Hour) },
		"?": func(j javaRW) { j.set("a text", time.Hour) },
	} {
		j := newJavaRW(t)
		make(j)
		untouched := j.unchanged()
		wrong := []any{int64(-2), kind}
		require.Equal(t, wrong, j.enter(gos, reader, time.Minute))
		require.Equal(t, wrong, j.enter(gos, writer, time.Minute))
		require.Equal(t, wrong, j.run(scripts.Load("redisson/rwlock-list", 1), "", 0, 10))
		require.Equal(t, int64(0), j.leave(gos))
		require.Equal(t, int64(0), j.run(scripts.Load("redisson/rwlock-renew", 1), gos, 60_000))
		require.Equal(t, int64(0), j.run(scripts.Load("redisson/rwlock-may-share", 1), gos))
		require.Equal(t, int64(-2), j.run(scripts.Load("redisson/rwlock-poll", 1), "0"), "the try tells")
		require.Equal(t, []any{int64(0), digits(noon)}, j.run(scripts.Load("redisson/rwlock-downgrade", 1), gos, "", "PUBLISH", j.channel))
		untouched()
	}
}

// P1, P6: the last reader's release frees the lock, and notifies the waiters. Before, the key lasts as long as the readers that are left.
func TestTheLastSharedReaderFreesTheLock(t *testing.T) {
	t.Parallel()
	j := newJavaRWAt(t)
	isListening := j.listen()
	j.reads(javas, 2, time.Minute)
	j.enters(gos, reader, time.Hour)
	other := goes(2)
	j.enters(other, reader, 10*time.Minute)
	j.fill() // P10
	require.Equal(t, int64(1), j.leave(gos))
	require.Equal(t, map[string]string{"mode": "read", javas: "2", other: "1"}, j.fields())
	j.requireLife(10 * time.Minute)
	require.Equal(t, int64(0), j.leave(gos), "a second time")
	require.Equal(t, int64(1), j.leave(other))
	j.requireLife(time.Minute)
	require.Empty(t, isListening.received())
	j.server.MustDo(t, "DEL", j.timeout(javas, 1), j.timeout(javas, 2)) // they end: it died
	j.server.MustDo(t, "CONFIG", "SET", "maxmemory", "0")
	j.enters(gos, reader, time.Hour)
	require.Equal(t, int64(1), j.leave(gos))
	require.Empty(t, j.server.Keys("*"), "one who died keeps nobody out")
	require.Equal(t, []string{"0"}, isListening.received())
}

// P1, P6: a writer's release frees the lock, and notifies all readers.
func TestASharedWriterFreesTheLock(t *testing.T) {
	t.Parallel()
	j := newJavaRWAt(t)
	isListening := j.listen()
	j.writes(javas, time.Hour)
	untouched := j.unchanged()
	require.Equal(t, int64(0), j.leave(gos))
	untouched()
	j.server.MustDo(t, "DEL", j.key)
	j.enters(gos, writer, time.Hour)
	j.fill()
	require.Equal(t, int64(1), j.leave(gos))
	require.Equal(t, int64(0), j.leave(gos))
	require.Empty(t, j.server.Keys("*"))
	require.Equal(t, []string{"1"}, isListening.received())
}

// P2: a renewal lengthens the life of its own hold, makes nothing, and takes nothing from others.
func TestASharedReadWriteLockIsRenewedForItsHold(t *testing.T) {
	t.Parallel()
	renew := func(j javaRW, life time.Duration) any {
		return j.run(scripts.Load("redisson/rwlock-renew", 1), gos, life.Milliseconds())
	}
	jr := newJavaRWAt(t)
	require.Equal(t, int64(0), renew(jr, time.Hour))
	jr.reads(javas, 1, time.Hour)
	untouched := jr.unchanged()
	require.Equal(t, int64(0), renew(jr, 2*time.Hour))
	untouched()
	jr.enters(gos, reader, time.Minute)
	untouched = jr.unchanged()
	require.Equal(t, int64(1), renew(jr, 0), "asked only")
	untouched()
	jr.fill()
	require.Equal(t, int64(1), renew(jr, 10*time.Minute))
	jr.requireLasts(jr.timeout(gos, 1), 10*time.Minute)
	jr.requireLasts(jr.timeout(javas, 1), time.Hour)
	jr.requireLife(time.Hour)
	require.Equal(t, int64(1), renew(jr, 2*time.Hour))
	jr.requireLife(2 * time.Hour)
	jr.server.MustDo(t, "DEL", jr.timeout(gos, 1))
	require.Equal(t, int64(1), renew(jr, time.Hour), "nobody was let in while it had ended")
	jr.requireLasts(jr.timeout(gos, 1), time.Hour)

	jr = newJavaRW(t)
	jr.enters(gos, writer, time.Minute)
	require.Equal(t, int64(1), renew(jr, time.Hour))
	jr.requireLife(time.Hour)
	require.Zero(t, jr.server.MustDo(t, "EXISTS", jr.timeout(gos, 1)))
}

func TestReadersOfASharedLockPoll(t *testing.T) {
	t.Parallel()
	j := newJavaRW(t)
	poll := func() any { return j.run(scripts.Load("redisson/rwlock-poll", 1), "0") }
	require.Equal(t, int64(-2), poll(), "free")
	j.writes(javas, time.Hour)
	require.InDelta(t, time.Hour.Milliseconds(), poll(), float64(patience.Milliseconds()))
	j.server.MustDo(t, "DEL", j.key)
	j.reads(javas, 1, time.Hour)
	require.Equal(t, int64(-2), poll(), "beside readers")
}

func TestASharedReaderSharesWhileItHasTheLock(t *testing.T) {
	t.Parallel()
	j := newJavaRW(t)
	require.Equal(t, int64(0), j.run(scripts.Load("redisson/rwlock-may-share", 1), gos))
	j.reads(javas, 1, time.Hour)
	require.Equal(t, int64(0), j.run(scripts.Load("redisson/rwlock-may-share", 1), gos))
	j.enters(gos, reader, time.Minute)
	require.Equal(t, int64(1), j.run(scripts.Load("redisson/rwlock-may-share", 1), gos))
}

// P5: a writer becomes a reader for the rest of its lease, and readers are notified. Sent again it is a reader.
func TestASharedWriterBecomesAReader(t *testing.T) {
	t.Parallel()
	j := newJavaRW(t)
	isListening := j.listen()
	downgrade := func() any {
		return j.run(scripts.Load("redisson/rwlock-downgrade", 1), gos, "", "PUBLISH", j.channel).([]any)[0]
	}
	require.Equal(t, int64(0), downgrade())
	j.enters(gos, writer, time.Hour)
	for range 2 {
		require.Equal(t, int64(1), downgrade())
		require.Equal(t, map[string]string{"mode": "read", gos: "1"}, j.fields())
		j.requireLasts(j.timeout(gos, 1), time.Hour)
		j.requireLife(time.Hour)
	}
	require.Equal(t, []string{"1"}, isListening.received())
	j.reads(javas, 1, time.Minute)
	require.Equal(t, int64(1), j.leave(gos), "by its name, as a writer's")
	require.Equal(t, map[string]string{"mode": "read", javas: "1"}, j.fields())
}

func TestTheHoldersOfASharedReadWriteLockAreListed(t *testing.T) {
	t.Parallel()
	j := newJavaRW(t)
	list := func(from, count int) []any { // with 0 for each stamp that is the end of the hold's key
		clock := j.clock
		j.clock = 0
		defer func() { j.clock = clock }()
		listed := j.run(scripts.Load("redisson/rwlock-list", 1), "", from, count).([]any)
		for i := 2; i < len(listed); i += 2 {
			key, returned := j.key, parseStamp(t, listed[i+1])/1000
			if listed[1] != "1" {
				key = j.timeout(listed[i].(string), 1)
			}
			listed[i+1] = returned - j.end(key, returned).(int64)
		}
		return listed
	}
	require.Equal(t, []any{"", ""}, list(0, 10))
	j.writes(javas, time.Hour)
	require.Equal(t, []any{"", "1", javas, int64(0)}, list(0, 10))

	j.server.MustDo(t, "DEL", j.key)
	want := []any{"", ""}
	for n := range 4 {
		j.enters(goes(n), reader, time.Duration(n+1)*time.Hour)
		want = append(want, goes(n), int64(0))
	}
	j.server.MustDo(t, "HSET", j.key, javas, 1) // one who died
	require.Equal(t, want, list(0, 10))
	require.Equal(t, append([]any{"", ""}, want[4:8]...), list(1, 2))
	require.Equal(t, []any{"", ""}, list(4, 2))
}

// P2, P8: it takes the lock from the holds that were found, and from no others, and notifies their sessions.
func TestASharedReadWriteLockIsTakenByForce(t *testing.T) {
	t.Parallel()
	j := newJavaRW(t)
	force := func(holds ...string) any {
		text := ""
		for _, hold := range holds {
			text += "session\n" + hold + "\n"
		}
		return j.run(scripts.Load("redisson/rwlock-force", 1), "PUBLISH", j.channel, j.channel+":told:", text)
	}
	isListening, published := j.listen(), j.listenTo(j.channel+":told:session")
	j.reads(javas, 2, time.Hour)
	j.enters(gos, reader, time.Hour)
	j.enters(goes(2), reader, time.Hour)
	require.Equal(t, []any{int64(2)}, force(javas, goes(2), goes(3)))
	require.Equal(t, map[string]string{"mode": "read", gos: "1"}, j.fields())
	require.Zero(t, j.server.MustDo(t, "EXISTS", j.timeout(javas, 1), j.timeout(javas, 2), j.timeout(goes(2), 1)))
	require.Empty(t, isListening.received())
	require.Equal(t, []string{j.key}, published.received())
	require.Equal(t, []any{int64(1)}, force(gos))
	require.Empty(t, j.fields())
	j.enters(gos, writer, time.Hour)
	require.Equal(t, []any{int64(1)}, force(gos))
	require.Equal(t, []any{int64(0)}, force(gos))
	require.Empty(t, j.fields())
	require.Equal(t, []string{"0", "1"}, isListening.received(), "what it was taken from")
}
