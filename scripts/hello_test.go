// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

// isSharded is 1 if the server has sharded channels, which came with Redis 7.0.
func isSharded(t *testing.T) int64 {
	t.Helper()
	if redistest.IsOld(t) {
		return 0
	}
	return 1
}

func TestHelloReturnsTheServersTime(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.clock = noon + 7
	require.Equal(t, []any{int64(1), digits(noon + 7), "0", "noeviction", isSharded(t)}, f.run(scripts.SessionHello))
}

func TestHelloReturnsWhetherKeysAreEvicted(t *testing.T) {
	t.Parallel()
	f := newFixtureAt(t, redistest.WithArgs("--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru"))
	require.Equal(t, []any{int64(1), digits(noon), "67108864", "allkeys-lru", isSharded(t)}, f.run(scripts.SessionHello))
}

func TestHelloDoesWithoutTheRightToAsk(t *testing.T) {
	t.Parallel()
	f := newFixtureAt(t)
	reply, _ := f.as("+time").run(scripts.SessionHello).([]any)
	require.Len(t, reply, 5)
	require.Equal(t, []any{"", ""}, reply[2:4])
}

func TestHelloKnowsAnOldServerByWhatItLacks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		server string // what the script finds, in Lua
		want   int64
	}{
		"New":          {"{call = redis.call, pcall = redis.pcall, REDIS_VERSION_NUM = 0x00070000}", 1},
		"OldRedis":     {"{call = redis.call, pcall = function() return {err = 'ERR unknown command'} end}", 0},
		"NewButSilent": {"{call = redis.call, pcall = redis.pcall}", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.server.MustDo(t, "SET", f.key, "a key of ours")
			unchanged := f.untouched()
			f.clock = 0
			old := *scripts.SessionHello
			old.Source = "local redis = " + c.server + "\n" + old.Source
			reply := f.run(&old).([]any)
			require.Equal(t, c.want, reply[0])
			unchanged()
		})
	}
}

func TestHelloReportsShardedChannels(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		server string // what the script finds, in Lua
		want   int64
	}{
		"Silent": {"{call = redis.call, pcall = redis.pcall}", isSharded(t)}, // it says that SPUBLISH takes arguments
		"Without": {`{call = redis.call, pcall = function(verb, ...)
			if verb == 'SPUBLISH' then return {err = 'ERR Unknown Redis command called from script'} end
			return redis.pcall(verb, ...)
		end}`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.clock = 0
			hello := *scripts.SessionHello
			hello.Source = "local redis = " + c.server + "\n" + hello.Source
			reply := f.run(&hello).([]any)
			require.Equal(t, c.want, reply[4])
		})
	}
}
