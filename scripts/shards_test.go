// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
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

// P2, P10: a member is renewed, and releases what it owns, when memory is full. No other joins.
func TestAMemberOfAGroupIsRenewedWhenMemoryIsFull(t *testing.T) {
	t.Parallel()
	m := groupOf(newFixtureAt(t))
	keys := m.at(shardKeys()...)
	m.fill()
	reply, err := m.tryKeys(scripts.ShardsPoll, keys, firstMember, digits(0), "PUBLISH", "c")
	require.NoError(t, err)
	list, _ := reply.([]any)
	require.Equal(t, int64(1), list[0])
	token, _ := list[5].(string)
	reply, err = m.tryKeys(scripts.ShardsRelease, keys, firstMember, token[16:32]+"r"+digits(0)[1:]+token[37:39]+token[39:40], "PUBLISH", "c")
	require.NoError(t, err)
	list, _ = reply.([]any)
	require.Equal(t, "1", list[3])
	_, err = m.tryKeys(scripts.ShardsJoin, keys, shardJoin(holdOf("c"), 64)...)
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
				scripts.ShardsSet:     {firstMember, 1, 1, "l", "", "PUBLISH", "c"},
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
