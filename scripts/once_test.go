// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

// outcomeOf is what the key says of an outcome.
func outcomeOf(stamp int64, value string) string { return "sb1o" + digits(stamp) + value }

// outcome returns the key of the outcome beside the lock of a fixture.
func (p *fixture) outcome() string { return strings.TrimSuffix(p.key, "lock") + "once" }

// readOnce returns what is stored.
func (p *fixture) readOnce() any {
	p.Helper()
	reply, err := p.tryKeys(scripts.OnceRead, []string{p.outcome()})
	require.NoError(p, err)
	return reply
}

// store stores a value under the hold of a stamp.
func (p *fixture) store(stamp int64, value string) any {
	p.Helper()
	reply, err := p.tryKeys(scripts.OnceStore, []string{p.outcome(), p.key}, digits(stamp), "3600000", value, "PUBLISH", p.channel)
	require.NoError(p, err)
	return reply
}

// forget deletes the outcome of a stamp.
func (p *fixture) forget(stamp int64) any {
	p.Helper()
	reply, err := p.tryKeys(scripts.OnceForget, []string{p.outcome()}, digits(stamp))
	require.NoError(p, err)
	return reply
}

func TestAnOutcomeIsStoredOnceUnderItsHold(t *testing.T) {
	t.Parallel()
	for _, mark := range []string{"-", "q"} {
		p := newFixture(t)
		p.set(lockSays(ours+"f", noon, mark), time.Minute)
		listener := p.listen()
		require.Equal(t, []any{int64(0)}, p.readOnce())
		require.Equal(t, []any{int64(1)}, p.store(noon, "x\x00y"))
		require.Equal(t, []string{digits(noon)}, listener.received())
		require.Equal(t, []any{int64(1), digits(noon), "x\x00y"}, p.readOnce())
		require.Equal(t, outcomeOf(noon, "x\x00y"), p.server.MustDo(p, "GET", p.outcome()))
		left, _ := p.server.MustDo(p, "PTTL", p.outcome()).(int64)
		require.InDelta(t, time.Hour.Milliseconds(), left, 60_000)
		// P5: sent twice it counts once, and says the same.
		require.Equal(t, []any{int64(1)}, p.store(noon, "other"))
		require.Equal(t, []any{int64(1), digits(noon), "x\x00y"}, p.readOnce())
		require.Empty(t, listener.received())
	}
}

// P2, P3: a hold that is over stores nothing, and gets the outcome that is stored.
func TestAnOutcomeOfAHoldThatIsOverIsNotStored(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		"NoKey": "", "LaterHold": lockSays(theirs+"f", noon+1, "-"), "LaterTurn": lockSays(theirs+"r", noon+1, "q"),
		"Released": released(noon), "Idle": idleSays(noon), "Earlier": lockSays(theirs+"f", noon-1, "-"), "Foreign": "x",
		"Quorum": votedFor(theirs, noon, they),
	} {
		p := newFixture(t)
		if value != "" {
			p.set(value, time.Minute)
		}
		listener := p.listen()
		require.Equal(t, []any{int64(0)}, p.store(noon, "x"), name)
		require.Equal(t, []any{int64(0)}, p.readOnce(), name)
		p.server.MustDo(p, "SET", p.outcome(), outcomeOf(noon+1, "y"), "PX", keepMS)
		require.Equal(t, []any{int64(0), "y"}, p.store(noon, "x"), name)
		require.Equal(t, []any{int64(1), digits(noon + 1), "y"}, p.readOnce(), name)
		require.Empty(t, listener.received())
	}
	p := newFixture(t)
	p.server.MustDo(p, "ZADD", p.key, 1, "sb1w")
	require.Equal(t, []any{int64(0)}, p.store(noon, "x"))
}

func TestForgetDeletesTheOutcomeOfItsStampAlone(t *testing.T) {
	t.Parallel()
	p := newFixture(t)
	require.Equal(t, []any{int64(0)}, p.forget(noon))
	p.server.MustDo(p, "SET", p.outcome(), outcomeOf(noon, ""), "PX", keepMS)
	require.Equal(t, []any{int64(0)}, p.forget(noon+1))
	require.Equal(t, []any{int64(1), digits(noon), ""}, p.readOnce())
	require.Equal(t, []any{int64(1)}, p.forget(noon))
	require.Equal(t, []any{int64(0)}, p.forget(noon))
	require.Equal(t, []any{int64(0)}, p.readOnce())
}

// P9: a key that is no outcome's is left as it is.
func TestAForeignOutcomeIsLeftAlone(t *testing.T) {
	t.Parallel()
	for what := range foreign {
		p := newFixture(t)
		p.puts(what, p.outcome())
		p.set(lockSays(ours+"f", noon, "-"), time.Minute)
		before := p.server.MustDo(p, "DUMP", p.outcome())
		for _, call := range []struct {
			script *scripts.Script
			keys   []string
			args   []any
		}{
			{scripts.OnceRead, []string{p.outcome()}, nil},
			{scripts.OnceStore, []string{p.outcome(), p.key}, []any{digits(noon), "1000", "x", "PUBLISH", p.channel}},
			{scripts.OnceForget, []string{p.outcome()}, []any{digits(noon)}},
		} {
			reply, err := p.tryKeys(call.script, call.keys, call.args...)
			if err != nil {
				require.ErrorContains(t, err, "WRONGTYPE", what)
			} else {
				require.Equal(t, []any{int64(-2)}, reply, what)
			}
			require.Equal(t, before, p.server.MustDo(p, "DUMP", p.outcome()), what)
		}
	}
}

// P10: a store that is refused for lack of memory has written nothing; a message that is denied fails no store.
func TestAStoreThatIsRefused(t *testing.T) {
	t.Parallel()
	p := newFixtureAt(t)
	p.set(lockSays(ours+"f", noon, "-"), time.Minute)
	p.fill()
	_, err := p.tryKeys(scripts.OnceStore, []string{p.outcome(), p.key}, digits(noon), "60000", "x", "PUBLISH", p.channel)
	require.ErrorContains(t, err, "OOM")
	p.server.MustDo(p, "CONFIG", "SET", "maxmemory", "0")
	require.Equal(t, []any{int64(0)}, p.readOnce())
	require.Equal(t, []any{int64(1)}, p.as("+get", "+set").store(noon, "x"))
	require.Equal(t, []any{int64(1), digits(noon), "x"}, p.readOnce())
}
