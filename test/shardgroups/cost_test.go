// SPDX-License-Identifier: Apache-2.0

package shardgroups_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// idle is how many commands a poll takes at which nothing changes.
const idle = 16

// An idle poll takes as many commands whatever the number of shards is.
func TestAnIdlePollCostsTheSameForAnyCount(t *testing.T) {
	t.Parallel()
	for _, count := range []int{64, 1000, 4096} {
		w := evenWorld(t, count, 4)
		for _, m := range w.members {
			w.passes(millisecond)
			require.False(t, m.poll())
			require.Equal(t, idle, w.commands, "%d shards", count)
		}
		w.drop()
	}
}

// Nor does it where loads stay uneven, since those with few shards have given away all that the others have: it looks at a few shards of
// a few members, at each poll at others.
func TestBansCostAPollLittle(t *testing.T) {
	t.Parallel()
	w := newWorld(newGroup(t), 100)
	for range 20 {
		w.add(defaults(100))
	}
	able, unable := w.members[:10], w.members[10:]
	for _, m := range unable {
		m.polls()
		m.set(1, unlimited, "p")
	}
	w.runs(20*second, second)
	require.Len(t, able[0].owns, 10)
	var bans strings.Builder
	for _, m := range unable {
		fmt.Fprintf(&bans, " %s:%d", m.number, w.clock+3600*second)
	}
	texts := w.hash(6)
	for shard := range w.rows() {
		w.server.MustDo(t, "HSET", w.keys[6], shard, texts[shard]+bans.String())
	}
	for _, m := range unable {
		m.set(1, unlimited, "l")
	}
	moves := w.moves
	for range 20 {
		w.passes(second / 2)
		for _, m := range w.members {
			require.False(t, m.poll())
			require.Less(t, w.commands, 12*idle)
		}
	}
	require.Equal(t, moves, w.moves)

	shard := slices.Min(slices.Collect(maps.Keys(able[7].owns))) // one shard of one donor is for one of the takers
	w.server.MustDo(t, "HSET", w.keys[6], shard, strings.ReplaceAll(w.hash(6)[shard], unable[4].number+":", never+":"))
	w.runs(10*second, second/10)
	require.NotEmpty(t, unable[4].owns[shard])
	require.Equal(t, moves+1, w.moves)
}
