// SPDX-License-Identifier: Apache-2.0

package shardgroups_test

import (
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// A poll of a group at rest ends before most of the script. Its reply, and the keys behind it, are those of the whole script: in random
// walks, in which each poll runs both ways.
func TestAPollAtRestIsAWholePoll(t *testing.T) {
	t.Parallel()
	var atRest atomic.Int64
	t.Run("seeds", func(t *testing.T) {
		for seed := range redistest.Rounds(12, 60) {
			t.Run(strconv.Itoa(seed), func(t *testing.T) {
				t.Parallel()
				wk := newWalk(t, seed)
				wk.compares = true
				wk.take()
				for range 5 { // calm: all polls of the second turn or later find nothing to do
					wk.passes(second)
					wk.turn()
				}
				atRest.Add(int64(wk.atRest))
			})
		}
	})
	require.Greater(t, atRest.Load(), int64(100), "hardly any poll was at rest")
}

// wholePoll makes every poll a whole one.
var wholePoll = &mistake{was: "local reply = rest()", is: "local reply = nil"}

// compareWhole runs a whole poll on a copy of the group. The function that it returns compares the poll of the group itself.
func (g *group) compareWhole(args []any) func(reply []any) {
	g.Helper()
	twin := &group{TB: g.TB, server: g.server, clock: g.clock, plant: wholePoll}
	for _, key := range g.keys {
		name, _ := key.(string)
		copied := strings.Replace(name, "}:", "}:twin:", 1)
		g.server.MustDo(g, "COPY", name, copied)
		twin.keys = append(twin.keys, copied)
	}
	whole, err := twin.try(proto.ShardsPollScript, args...)
	require.NoError(g, err)
	return func(reply []any) {
		g.Helper()
		defer twin.drop()
		require.Equal(g, whole, reply)
		for n := range g.keys {
			ttl, wholeTTL := g.server.MustDo(g, "PTTL", g.keys[n]), g.server.MustDo(g, "PTTL", twin.keys[n])
			require.InDelta(g, integer(wholeTTL), integer(ttl), 60_000, "the life of key %d", n)
			if kind := g.server.MustDo(g, "TYPE", g.keys[n]); kind == "hash" {
				require.Equal(g, twin.hash(n), g.hash(n), "key %d", n)
			} else {
				require.Equal(g, g.server.MustDo(g, "ZRANGE", twin.keys[n], 0, -1, "WITHSCORES"), g.server.MustDo(g, "ZRANGE", g.keys[n], 0, -1, "WITHSCORES"), "key %d", n)
			}
		}
		if g.commands == idle && g.commands < twin.commands {
			g.atRest++
		}
	}
}
