// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

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
	token, _ := send(scripts.ShardsPoll, firstMember, digits(0), "PUBLISH", "c")[5].(string)
	release := []any{firstMember, token[16:32] + "r" + digits(0)[1:] + token[37:39] + token[39:40], "PUBLISH", "c"}
	for _, ended := range []string{"1", "0"} {
		require.Equal(t, ended, send(scripts.ShardsRelease, release...)[3])
		m.clock += second
	}
	send(scripts.ShardsSet, firstMember, 2, mostShards, "l", strings.Repeat("v", 256), 1, "PUBLISH", "c")
	send(scripts.ShardsLeave, firstMember, "PUBLISH", "c")
	send(scripts.ShardsEnd, nextMember, "PUBLISH", "c")
	_, err := m.tryKeys(scripts.ShardsJoin, keys, shardJoin(holdOf("c"), 64)...)
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
				scripts.ShardsJoin:    shardJoin(ours, 64),
				scripts.ShardsPoll:    {firstMember, digits(0), "PUBLISH", "c"},
				scripts.ShardsRelease: {firstMember, "", "PUBLISH", "c"},
				scripts.ShardsLeave:   {firstMember, "PUBLISH", "c"},
				scripts.ShardsRead:    {digits(0), digits(0), digits(0), ""},
				scripts.ShardsSet:     {firstMember, 1, 1, "l", "", 1, "PUBLISH", "c"},
				scripts.ShardsMove:    {"0", firstMember, later, "PUBLISH", "c"},
				scripts.ShardsResize:  {8, later, "PUBLISH", "c"},
				scripts.ShardsSync:    {ours, "x", "", "", 1, later, "PUBLISH", "c"},
				scripts.ShardsList:    {10},
				scripts.ShardsEnd:     {firstMember, "PUBLISH", "c"},
			} {
				reply, err := m.tryKeys(script, keys, args...)
				unchanged()
				if err != nil {
					require.ErrorContains(t, err, "WRONGTYPE")
					continue
				}
				list, _ := reply.([]any)
				if code := list[0]; script != scripts.ShardsRelease {
					require.Contains(t, []any{int64(0), int64(-2)}, code, script.Name)
				}
			}
		})
	}
}
