// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

func (p *fixture) counter() string { return p.key + ":counter" }

// fence takes the lock as Redisson's RFencedLock has it.
func (p *fixture) fence(hold, notAfter string) any {
	p.Helper()
	reply, err := p.tryKeys(scripts.RedissonFence, []string{p.key, p.counter()}, hold, time.Minute.Milliseconds(), notAfter, "PUBLISH", p.channel, "1")
	require.NoError(p, err)
	return reply
}

// P3, P5: each acquire has the next number. One that is sent again has a later one: no caller got the one before.
func TestAFencedLockHasTheNextNumber(t *testing.T) {
	t.Parallel()
	p := newFixture(t)
	for token := range int64(3) {
		require.Equal(t, []any{int64(1), digits(noon), token + 1}, p.fence(gos, later))
		require.Equal(t, map[string]string{gos: "1"}, p.fields(), "counted once")
	}
	p.requireLife(time.Minute)
	released, err := p.tryKeys(scripts.RedissonRelease, []string{p.key, p.counter()}, gos, "PUBLISH", p.channel)
	require.NoError(t, err)
	require.Equal(t, []any{int64(1), digits(noon), int64(0)}, released)
	require.Equal(t, []any{int64(1), digits(noon), int64(4)}, p.fence(javas, later))
	require.Equal(t, "4", p.server.MustDo(t, "GET", p.counter()))
	require.Equal(t, int64(-1), p.server.MustDo(t, "PTTL", p.counter()))
}

// P1, P4: who does not get it uses no number up.
func TestAFencedLockThatIsHeldCountsNothing(t *testing.T) {
	t.Parallel()
	p := newFixture(t)
	require.Equal(t, []any{int64(-1), digits(noon)}, p.fence(gos, digits(noon-1)))
	p.has(javas, "3", time.Hour)
	reply, _ := p.fence(gos, later).([]any)
	require.Equal(t, []any{int64(0), digits(noon)}, []any{reply[0], reply[2]})
	p.server.MustDo(t, "HSET", p.key, "mode", "read")
	require.Equal(t, []any{int64(-2), "w"}, p.fence(gos, later))
	p.server.MustDo(t, "DEL", p.key)
	p.set("a text", time.Hour)
	require.Equal(t, []any{int64(-2), "?"}, p.fence(gos, later))
	require.Nil(t, p.server.MustDo(t, "GET", p.counter()))
}

// P3, P10: no hold without a number.
func TestAFencedLockIsNotTakenWithoutANumber(t *testing.T) {
	t.Parallel()
	p := newFixtureAt(t)
	p.server.MustDo(t, "SET", p.counter(), "no number")
	_, err := p.tryKeys(scripts.RedissonFence, []string{p.key, p.counter()}, gos, "60000", later, "PUBLISH", p.channel, "1")
	require.ErrorContains(t, err, "not an integer")
	p.server.MustDo(t, "DEL", p.counter())
	p.fill()
	_, err = p.tryKeys(scripts.RedissonFence, []string{p.key, p.counter()}, gos, "60000", later, "PUBLISH", p.channel, "1")
	require.ErrorContains(t, err, "OOM")
	require.Empty(t, p.fields())
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
		p := newFixture(t)
		listener := p.listen()
		p.has(gos, "1", time.Hour)
		reply := p.run(scripts.RedissonRelease, gos, verb, p.channel)
		require.Equal(t, []any{int64(1), digits(noon), int64(min(len(isListening), 1))}, reply, verb)
		require.ElementsMatch(t, isListening, listener.received(), verb)
	}
}
