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
func (f *fixture) outcome() string { return strings.TrimSuffix(f.key, "lock") + "once" }

// readOnce returns what is stored.
func (f *fixture) readOnce() any {
	f.Helper()
	reply, err := f.tryKeys(scripts.OnceRead, []string{f.outcome()})
	require.NoError(f, err)
	return reply
}

// store stores a value under the hold of a stamp.
func (f *fixture) store(stamp int64, value string) any {
	f.Helper()
	reply, err := f.tryKeys(scripts.OnceStore, []string{f.outcome(), f.key}, digits(stamp), "3600000", value, "PUBLISH", f.channel)
	require.NoError(f, err)
	return reply
}

// forget deletes the outcome of a stamp.
func (f *fixture) forget(stamp int64) any {
	f.Helper()
	reply, err := f.tryKeys(scripts.OnceForget, []string{f.outcome()}, digits(stamp))
	require.NoError(f, err)
	return reply
}

func TestAnOutcomeIsStoredOnceUnderItsHold(t *testing.T) {
	t.Parallel()
	for _, mark := range []string{"-", "q"} {
		f := newFixture(t)
		f.set(lockSays(ours+"f", noon, mark), time.Minute)
		listener := f.listen()
		require.Equal(t, []any{int64(0)}, f.readOnce())
		require.Equal(t, []any{int64(1)}, f.store(noon, "x\x00y"))
		require.Equal(t, []string{digits(noon)}, listener.received())
		require.Equal(t, []any{int64(1), digits(noon), "x\x00y"}, f.readOnce())
		require.Equal(t, outcomeOf(noon, "x\x00y"), f.server.MustDo(f, "GET", f.outcome()))
		left, _ := f.server.MustDo(f, "PTTL", f.outcome()).(int64)
		require.InDelta(t, time.Hour.Milliseconds(), left, 60_000)
		// P5: sent twice it counts once, and says the same.
		require.Equal(t, []any{int64(1)}, f.store(noon, "other"))
		require.Equal(t, []any{int64(1), digits(noon), "x\x00y"}, f.readOnce())
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
		f := newFixture(t)
		if value != "" {
			f.set(value, time.Minute)
		}
		listener := f.listen()
		require.Equal(t, []any{int64(0)}, f.store(noon, "x"), name)
		require.Equal(t, []any{int64(0)}, f.readOnce(), name)
		f.server.MustDo(f, "SET", f.outcome(), outcomeOf(noon+1, "y"), "PX", keepMS)
		require.Equal(t, []any{int64(0), "y"}, f.store(noon, "x"), name)
		require.Equal(t, []any{int64(1), digits(noon + 1), "y"}, f.readOnce(), name)
		require.Empty(t, listener.received())
	}
	fx := newFixture(t)
	fx.server.MustDo(fx, "ZADD", fx.key, 1, "sb1w")
	require.Equal(t, []any{int64(0)}, fx.store(noon, "x"))
}

func TestForgetDeletesTheOutcomeOfItsStampAlone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	require.Equal(t, []any{int64(0)}, f.forget(noon))
	f.server.MustDo(f, "SET", f.outcome(), outcomeOf(noon, ""), "PX", keepMS)
	require.Equal(t, []any{int64(0)}, f.forget(noon+1))
	require.Equal(t, []any{int64(1), digits(noon), ""}, f.readOnce())
	require.Equal(t, []any{int64(1)}, f.forget(noon))
	require.Equal(t, []any{int64(0)}, f.forget(noon))
	require.Equal(t, []any{int64(0)}, f.readOnce())
}

// P9: a key that is no outcome's is left as it is.
func TestAForeignOutcomeIsLeftAlone(t *testing.T) {
	t.Parallel()
	for what := range foreign {
		f := newFixture(t)
		f.puts(what, f.outcome())
		f.set(lockSays(ours+"f", noon, "-"), time.Minute)
		before := f.server.MustDo(f, "DUMP", f.outcome())
		for _, call := range []struct {
			script *scripts.Script
			keys   []string
			args   []any
		}{
			{scripts.OnceRead, []string{f.outcome()}, nil},
			{scripts.OnceStore, []string{f.outcome(), f.key}, []any{digits(noon), "1000", "x", "PUBLISH", f.channel}},
			{scripts.OnceForget, []string{f.outcome()}, []any{digits(noon)}},
		} {
			reply, err := f.tryKeys(call.script, call.keys, call.args...)
			if err != nil {
				require.ErrorContains(t, err, "WRONGTYPE", what)
			} else {
				require.Equal(t, []any{int64(-2)}, reply, what)
			}
			require.Equal(t, before, f.server.MustDo(f, "DUMP", f.outcome()), what)
		}
	}
}

// P10: a store that is refused for lack of memory has written nothing; a message that is denied fails no store.
func TestAStoreThatIsRefused(t *testing.T) {
	t.Parallel()
	f := newFixtureAt(t)
	f.set(lockSays(ours+"f", noon, "-"), time.Minute)
	f.fill()
	_, err := f.tryKeys(scripts.OnceStore, []string{f.outcome(), f.key}, digits(noon), "60000", "x", "PUBLISH", f.channel)
	require.ErrorContains(t, err, "OOM")
	f.server.MustDo(f, "CONFIG", "SET", "maxmemory", "0")
	require.Equal(t, []any{int64(0)}, f.readOnce())
	require.Equal(t, []any{int64(1)}, f.as("+get", "+set").store(noon, "x"))
	require.Equal(t, []any{int64(1), digits(noon), "x"}, f.readOnce())
}
