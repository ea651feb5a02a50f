// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// groupOf returns a fixture with a group of 64 shards and two members, the first of which has all shards.
func groupOf(f *fixture) *measured {
	f.Helper()
	m := &measured{f, f.key[:len(f.key)-len("lock")]}
	aShardGroup(m, 64)
	return m
}

// P2, P10: when memory is full no member joins, and all that members of a group send works: also what comes late.
func TestMembersOfAGroupWorkWhenMemoryIsFull(t *testing.T) {
	t.Parallel()
	m := groupOf(newFixtureAt(t))
	keys := m.at(shardKeys()...)
	m.fill()
	send := func(script *scripts.Script, args ...any) []any {
		reply, err := m.tryKeys(script, keys, args...)
		require.NoError(t, err, script.Name)
		list, _ := reply.([]any)
		require.Equal(t, int64(1), list[0], script.Name)
		return list
	}
	token, _ := send(proto.ShardsPollScript, firstMember, digits(0), "PUBLISH", "c")[5].(string)
	release := []any{firstMember, token[16:32] + "r" + digits(0)[1:] + token[37:39] + token[39:40], "PUBLISH", "c"}
	for _, ended := range []string{"1", "0"} {
		require.Equal(t, ended, send(proto.ShardsReleaseScript, release...)[3])
		m.clock += second
	}
	send(proto.ShardsSetScript, firstMember, 2, mostShards, "l", strings.Repeat("v", 256), 1, "PUBLISH", "c")
	send(proto.ShardsLeaveScript, firstMember, 1, "PUBLISH", "c")
	send(proto.ShardsEndScript, nextMember, "PUBLISH", "c")
	_, err := m.tryKeys(proto.ShardsJoinScript, keys, shardJoin(holdOf("c"), 64)...)
	require.ErrorContains(t, err, "OOM")
}

// P9: what is no group is left as it is.
func TestAKeyThatIsNoGroupIsLeftAlone(t *testing.T) {
	t.Parallel()
	for what := range foreign {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			m := newMeasured(t)
			keys := m.at(shardKeys()...)
			m.puts(what, keys[0])
			unchanged := m.unchangedKeys(func() []string { return keys })
			for script, args := range map[*scripts.Script][]any{
				proto.ShardsJoinScript:    shardJoin(ours, 64),
				proto.ShardsPollScript:    {firstMember, digits(0), "PUBLISH", "c"},
				proto.ShardsReleaseScript: {firstMember, "", "PUBLISH", "c"},
				proto.ShardsLeaveScript:   {firstMember, 1, "PUBLISH", "c"},
				proto.ShardsReadScript:    {digits(0), digits(0), digits(0), ""},
				proto.ShardsSetScript:     {firstMember, 1, 1, "l", "", 1, "PUBLISH", "c"},
				proto.ShardsMoveScript:    {"0", firstMember, later, "PUBLISH", "c"},
				proto.ShardsResizeScript:  {8, ours, later, "PUBLISH", "c"},
				proto.ShardsSyncScript:    {ours, "x", "", "", "", 1, later, "PUBLISH", "c"},
				proto.ShardsListScript:    {10},
				proto.ShardsEndScript:     {firstMember, "PUBLISH", "c"},
			} {
				reply, err := m.tryKeys(script, keys, args...)
				unchanged()
				if err != nil {
					require.ErrorContains(t, err, "WRONGTYPE")
					continue
				}
				list, _ := reply.([]any)
				if code := list[0]; script != proto.ShardsReleaseScript {
					require.Contains(t, []any{int64(0), int64(-2)}, code, script.Name)
				}
			}
		})
	}
}

// greatest is the greatest lease in these tests, in microseconds.
const greatest int64 = 30_000_000

// H19: what a file or a replica has of a server says nothing of when its life was compared: who starts with that compares.
func TestThatALifeWasComparedIsNotReplayed(t *testing.T) {
	t.Parallel()
	f := newFixtureAt(t, redistest.WithArgs("--appendonly", "yes", "--dir", t.TempDir()))
	info, _ := f.server.MustDo(t, "INFO", "server").(string)
	_, life, _ := strings.Cut(info, "run_id:")
	since := func(compared int64) string { return "sb1e" + digits(noon-greatest) + digits(compared) + life[:40] }
	f.server.MustDo(t, "SET", "epoch", since(noon-greatest), "PX", 7*24*3600*1000)
	reply, err := f.tryKeys(proto.RedlockAcquireScript, []string{f.key, "epoch", "fence"}, writtenFor(ours), lease, digits(noon), "", greatest)
	require.NoError(t, err)
	require.Equal(t, digits(noon), reply)
	require.Equal(t, since(noon), f.server.MustDo(t, "GET", "epoch"))
	f.server.MustDo(t, "DEBUG", "LOADAOF")
	require.Equal(t, since(noon-greatest), f.server.MustDo(t, "GET", "epoch"))
	require.Equal(t, votedFor(ours, noon, ""), f.value(), "as the rest of it is")
}

func TestASharedReaderHasAKeyInTheSlotOfTheLock(t *testing.T) {
	t.Parallel()
	server := serverOfOwn(t)
	for name, key := range map[string]string{"a": "{a}:", "{a}b": "{a}b:", "a{b": "a{b:"} {
		server.MustDo(t, "EVAL", scripts.Load("redisson/rwlock-acquire", 1).Source, 1, name, gos, 60_000, later, "PUBLISH", "c", "1", "r")
		require.Equal(t, "1", server.MustDo(t, "GET", key+gos+":rwlock_timeout:1"), name)
	}
}

// isSharded is 1 if the server has sharded channels, which came with Redis 7.0.
func isSharded(t *testing.T) int64 {
	t.Helper()
	if redistest.IsOld(t) {
		return 0
	}
	return 1
}

func TestHelloReturnsWhetherKeysAreEvicted(t *testing.T) {
	t.Parallel()
	f := newFixtureAt(t, redistest.WithArgs("--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru"))
	require.Equal(t, []any{int64(1), digits(noon), "67108864", "allkeys-lru", isSharded(t)}, f.run(wire.HelloScript))
}

// writes returns how many writes the server has counted. A write that changes nothing counts.
func (f *fixture) writes() string {
	f.Helper()
	info, _ := f.server.MustDo(f, "INFO", "persistence").(string)
	_, rest, found := strings.Cut(info, "rdb_changes_since_last_save:")
	require.True(f, found)
	count, _, _ := strings.Cut(rest, "\r\n")
	return count
}

// P1: a replica that has a rewrite has all that was written before.
func TestARewriteIsAlwaysAWrite(t *testing.T) {
	t.Parallel()
	for name, keep := range map[string]func(f *fixture){
		"String":    func(f *fixture) { f.set(votedFor(ours, noon, ""), time.Minute) },
		"SortedSet": func(f *fixture) { f.server.MustDo(f, "ZADD", f.key, noon, ours); f.expires(f.key, time.Minute) },
		"Endless":   func(f *fixture) { f.server.MustDo(f, "HSET", f.key, ours, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixtureAt(t)
			f.isTimed = true
			keep(f)
			unchanged := f.untouched()
			for range 2 {
				before := f.writes()
				require.Equal(t, int64(1), first(f.run(wire.RewriteScript)))
				require.NotEqual(t, before, f.writes())
				unchanged()
			}
		})
	}
}
