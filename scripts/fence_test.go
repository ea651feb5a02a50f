// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

func (p *place) counter() string { return p.key + ":counter" }

// fence takes the place as Redisson's RFencedLock has it.
func (p *place) fence(hold, notAfter string) any {
	p.Helper()
	reply, err := p.tryKeys(scripts.RedissonFence, []string{p.key, p.counter()}, claimOf(hold), time.Minute.Milliseconds(), notAfter, "0")
	require.NoError(p, err)
	return reply
}

// P3, P5: each acquire has the next number. One that is sent again has a later one: nobody got the one before.
func TestAFencedLockHasTheNextNumber(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for token := range int64(3) {
		require.Equal(t, []any{int64(2), token + 1, digits(noon)}, p.fence(gos, later))
		require.Equal(t, map[string]string{gos: "1"}, p.fields(), "counted once")
	}
	p.requireLife(time.Minute)
	require.Equal(t, int64(1), p.releaseShared(gos))
	require.Equal(t, []any{int64(2), int64(4), digits(noon)}, p.fence(javas, later))
	require.Equal(t, "4", p.server.MustDo(t, "GET", p.counter()))
	require.Equal(t, int64(-1), p.server.MustDo(t, "PTTL", p.counter()))
}

// P1, P4: who does not get it uses no number up.
func TestAFencedLockThatIsHeldCountsNothing(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
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
	p := newPlaceAt(t)
	p.server.MustDo(t, "SET", p.counter(), "no number")
	_, err := p.tryKeys(scripts.RedissonFence, []string{p.key, p.counter()}, claimOf(gos), "60000", later, "0")
	require.ErrorContains(t, err, "not an integer")
	p.server.MustDo(t, "DEL", p.counter())
	p.fill()
	_, err = p.tryKeys(scripts.RedissonFence, []string{p.key, p.counter()}, claimOf(gos), "60000", later, "0")
	require.ErrorContains(t, err, "OOM")
	require.Empty(t, p.fields())
}

// P7: many go in one call, each with its own counter and its own reply.
func TestFencedLocksAreTakenTogether(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	var keys []string
	var args []any
	for n := range 3 {
		key := p.key + strconv.Itoa(n)
		keys = append(keys, key, key+":counter")
		args = append(args, claimOf(gos), "60000", later, "0")
		p.server.MustDo(t, "SET", key+":counter", 10*n)
	}
	p.server.MustDo(t, "HSET", keys[2], javas, "1")
	reply, err := p.tryKeys(scripts.RedissonFence, keys, args...)
	require.NoError(t, err)
	require.Equal(t, []any{
		[]any{int64(2), int64(1), digits(noon)},
		[]any{int64(0), int64(-1), digits(noon)},
		[]any{int64(2), int64(21), digits(noon)},
	}, reply)
}

// P6: what is told in both ways is told in each that the server has, and a refusal changes nothing.
func TestAReleaseIsToldByEachCommand(t *testing.T) {
	t.Parallel()
	for verb, heard := range map[string][]string{
		"PUBLISH":                {"0"},
		"PUBLISH NOVERB PUBLISH": {"0", "0"},
		"NOVERB PUBLISH":         {"0"},
		"NOVERB":                 nil,
	} {
		p := newPlace(t)
		listener := p.listen()
		p.has(gos, "1", time.Hour)
		reply := p.run(scripts.RedissonRelease, heldBy(gos, noon, ""), digits(noon), verb, p.channel, keepMS)
		require.Equal(t, int64(min(len(heard), 1)+1), reply, verb)
		require.ElementsMatch(t, heard, listener.heard(), verb)
	}
}

// P3, P5: a hold goes on with the next number; sent again with a later one. Nobody else's goes on.
func TestAFencedLockGoesOnWithTheNextNumber(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	next := func(hold string) any {
		reply, err := p.tryKeys(scripts.RedissonFenceNext, []string{p.key, p.counter()}, hold, time.Hour.Milliseconds(), digits(noon), "PUBLISH", p.channel)
		require.NoError(t, err)
		return reply
	}
	require.Equal(t, []any{int64(0)}, next(gos))
	p.fence(gos, later)
	require.Equal(t, []any{int64(3), int64(2)}, next(gos))
	require.Equal(t, []any{int64(3), int64(3)}, next(gos))
	require.Equal(t, []any{int64(0)}, next(javas))
	require.Equal(t, map[string]string{gos: "1"}, p.fields())
	p.requireLife(time.Hour)
	require.Equal(t, "3", p.server.MustDo(t, "GET", p.counter()))
}
