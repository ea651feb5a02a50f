// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"fmt"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

// shardKeys are the ends of a group's keys.
func shardKeys() []string {
	return []string{"shards", "shards:members", "shards:ends", "shards:donors", "shards:takers", "shards:proven", "shards:rows", "shards:index"}
}

// shardJoin is a join of a group of n shards, which have names if n is 0.
func shardJoin(id string, n int) []any {
	return []any{id, later, 60 * second, 1, mostShards, n, 0, 2 * second, 0, 0, "", label, "address", "l", n, ""}
}

// The numbers of the members that join first and next.
var firstMember, nextMember = digits(noon + 1), digits(noon + 2)

// mostShards is how many shards a group has at the most.
const mostShards = 65_536

// aShardGroup makes a group of n shards, or of mostShards, and two members, the first of which has all shards, and leaves settling to
// the next call.
func aShardGroup(m *measured, n int) {
	m.Helper()
	n = min(n, mostShards)
	keys := m.at(shardKeys()...)
	run := func(script *scripts.Script, args ...any) []any {
		reply, err := m.tryKeys(script, keys, args...)
		require.NoError(m, err)
		list, _ := reply.([]any)
		require.Equal(m, int64(1), list[0])
		return list
	}
	m.clock = noon
	run(scripts.ShardsJoin, shardJoin(ours, n)...)
	run(scripts.ShardsJoin, shardJoin(theirs, n)...)
	for m.clock += 2 * second; run(scripts.ShardsPoll, firstMember, digits(m.clock), "PUBLISH", "c")[3] == int64(1); {
		m.clock += 100 // more than a call grants: the next one has read all that
	}
	run(scripts.ShardsPoll, nextMember, digits(0), "PUBLISH", "c")
	m.clock += second
}

// calmShards is the same when shards may be asked for.
func calmShards(m *measured, n int) {
	aShardGroup(m, n)
	m.clock += 2 * second
}

// aNamedGroup is one whose n shards have names.
func aNamedGroup(m *measured, n int) {
	m.Helper()
	keys := m.at(shardKeys()...)
	_, err := m.tryKeys(scripts.ShardsJoin, keys, shardJoin(ours, 0)...)
	require.NoError(m, err)
	for i := 0; i < n; i += 60 {
		names, after := namesBehind(i, min(60, n-i)), ""
		if i > 0 {
			after = fmt.Sprintf("%06d", i-1)
		}
		_, err = m.tryKeys(scripts.ShardsSync, keys, ours, "x", after, names, 0, later, "PUBLISH", "c")
		require.NoError(m, err)
	}
}

// namesBehind lists n names from the i-th on.
func namesBehind(i, n int) string {
	var text strings.Builder
	for j := range n {
		fmt.Fprintf(&text, "06%06d", i+j)
	}
	return text.String()
}

// shardCosts are the rows of groups of shards. An ask of a shard is 15 commands, and a call asks for 16.
func shardCosts() []costRow {
	const one, sixteen = 600, 4000
	keys := on(shardKeys()...)
	release := func(m *measured, _ int) []any {
		token := digits(noon)
		if row, has := m.server.MustDo(m, "HGET", m.at("shards:rows")[0], "0").(string); has {
			token = strings.Fields(row)[3]
		}
		return []any{firstMember, token + "r" + digits(0)[1:] + "010", "PUBLISH", "c"}
	}
	return []costRow{
		{script: scripts.ShardsJoin, crowd: "Shards", base: one, fill: aShardGroup, keys: keys, args: with(shardJoin(holdOf("c"), 64)...)},
		{script: scripts.ShardsPoll, crowd: "Shards", base: one, fill: aShardGroup, keys: keys, args: with(firstMember, digits(noon+3*second), "PUBLISH", "c")},
		{script: scripts.ShardsPoll, crowd: "Requests", base: sixteen, fill: calmShards, keys: keys, args: with(nextMember, digits(0), "PUBLISH", "c")},
		{script: scripts.ShardsRelease, crowd: "Shards", base: one, fill: aShardGroup, keys: keys, args: release},
		{script: scripts.ShardsLeave, crowd: "Shards", base: sixteen, fill: aShardGroup, keys: keys, args: with(firstMember, "PUBLISH", "c")},
		{script: scripts.ShardsRead, crowd: "Shards", base: 200 + 3*512, fill: aShardGroup, keys: keys, args: with(digits(0), digits(0), digits(0), "")},
		{script: scripts.ShardsSet, crowd: "Shards", base: one, fill: aShardGroup, keys: keys, args: with(nextMember, 2, 9, "l", "elsewhere", 1, "PUBLISH", "c")},
		{script: scripts.ShardsMove, crowd: "Shards", base: one, fill: aShardGroup, keys: keys, args: with("0", nextMember, later, "PUBLISH", "c")},
		{script: scripts.ShardsResize, crowd: "Shards", base: sixteen, fill: aShardGroup, keys: keys, args: with(9, later, "PUBLISH", "c")},
		{script: scripts.ShardsSync, crowd: "Names", base: sixteen, fill: aNamedGroup, keys: keys, args: with(ours, "y", "", namesBehind(0, 9), 0, later, "PUBLISH", "c")},
		{script: scripts.ShardsList, crowd: "Shards", base: one, fill: aShardGroup, keys: keys, args: with(10)},
		{script: scripts.ShardsEnd, crowd: "Shards", base: sixteen, fill: aShardGroup, keys: keys, args: with(firstMember, "PUBLISH", "c")},
	}
}
