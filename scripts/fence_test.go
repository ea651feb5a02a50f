// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

func (f *fixture) counter() string { return f.key + ":counter" }

// fence takes the lock as Redisson's RFencedLock has it.
func (f *fixture) fence(hold, notAfter string) any {
	f.Helper()
	reply, err := f.tryKeys(scripts.Load("redisson/fence", 1), []string{f.key, f.counter()}, hold, time.Minute.Milliseconds(), notAfter, "PUBLISH", f.channel, "1")
	require.NoError(f, err)
	return reply
}

// P3, P5: each acquire has the next number. One that is sent again has a later one: no caller got the one before.
func TestAFencedLockHasTheNextNumber(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for token := range int64(3) {
		require.Equal(t, []any{int64(1), digits(noon), token + 1}, f.fence(gos, later))
		require.Equal(t, map[string]string{gos: "1"}, f.fields(), "counted once")
	}
	f.requireLife(time.Minute)
	released, err := f.tryKeys(scripts.Load("redisson/release", 1), []string{f.key, f.counter()}, gos, "PUBLISH", f.channel)
	require.NoError(t, err)
	require.Equal(t, []any{int64(1), digits(noon), int64(0)}, released)
	require.Equal(t, []any{int64(1), digits(noon), int64(4)}, f.fence(javas, later))
	require.Equal(t, "4", f.server.MustDo(t, "GET", f.counter()))
	require.Equal(t, int64(-1), f.server.MustDo(t, "PTTL", f.counter()))
}

// P1, P4: who does not get it uses no number up.
func TestAFencedLockThatIsHeldCountsNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	require.Equal(t, []any{int64(-1), digits(noon)}, f.fence(gos, digits(noon-1)))
	f.has(javas, "3", time.Hour)
	reply, _ := f.fence(gos, later).([]any)
	require.Equal(t, []any{int64(0), digits(noon)}, []any{reply[0], reply[2]})
	f.server.MustDo(t, "HSET", f.key, "mode", "read")
	require.Equal(t, []any{int64(-2), "w"}, f.fence(gos, later))
	f.server.MustDo(t, "DEL", f.key)
	f.set("a text", time.Hour)
	require.Equal(t, []any{int64(-2), "?"}, f.fence(gos, later))
	require.Nil(t, f.server.MustDo(t, "GET", f.counter()))
}

// P3, P10: no hold without a number.
func TestAFencedLockIsNotTakenWithoutANumber(t *testing.T) {
	t.Parallel()
	f := newFixtureAt(t)
	f.server.MustDo(t, "SET", f.counter(), "no number")
	_, err := f.tryKeys(scripts.Load("redisson/fence", 1), []string{f.key, f.counter()}, gos, "60000", later, "PUBLISH", f.channel, "1")
	require.ErrorContains(t, err, "not an integer")
	f.server.MustDo(t, "DEL", f.counter())
	f.fill()
	_, err = f.tryKeys(scripts.Load("redisson/fence", 1), []string{f.key, f.counter()}, gos, "60000", later, "PUBLISH", f.channel, "1")
	require.ErrorContains(t, err, "OOM")
	require.Empty(t, f.fields())
}

// P6: a release publishes by each of its commands that the server has. One that it lacks changes nothing.
func TestAReleaseIsPublishedByEachCommand(t *testing.T) {
	t.Parallel()
	for verb, isListening := range map[string][]string{
		"PUBLISH":                {"0"},
		"PUBLISH NOVERB PUBLISH": {"0", "0"},
		"NOVERB PUBLISH":         {"0"},
		"NOVERB":                 nil,
	} {
		f := newFixture(t)
		listener := f.listen()
		f.has(gos, "1", time.Hour)
		reply := f.run(scripts.Load("redisson/release", 1), gos, verb, f.channel)
		require.Equal(t, []any{int64(1), digits(noon), int64(min(len(isListening), 1))}, reply, verb)
		require.ElementsMatch(t, isListening, listener.received(), verb)
	}
}
