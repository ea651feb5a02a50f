// SPDX-License-Identifier: Apache-2.0

package proto_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

var shardsCalls = []callRow{
	{scripts.ShardsJoin, &proto.ShardsJoin{}},
	{scripts.ShardsPoll, &proto.ShardsPoll{}},
	{scripts.ShardsRelease, &proto.ShardsRelease{}},
	{scripts.ShardsLeave, &proto.ShardsMember{}},
	{scripts.ShardsEnd, &proto.ShardsMember{}},
	{scripts.ShardsSet, &proto.ShardsSet{}},
	{scripts.ShardsMove, &proto.ShardsMove{}},
	{scripts.ShardsResize, &proto.ShardsResize{}},
	{scripts.ShardsSync, &proto.ShardsSync{}},
	{scripts.ShardsRead, &proto.ShardsRead{}},
	{scripts.ShardsList, &proto.ShardsList{}},
}

// A reply to a join with a code that no version has is no lease of no time.
func TestAJoinOfAnUnknownCodeIsUnreadable(t *testing.T) {
	t.Parallel()
	known := map[wire.Code]bool{wire.Done: true, wire.Late: true, wire.Foreign: true, wire.OtherCapacity: true}
	for code := -12; code <= 3; code++ {
		reply := redistest.Outcome([]any{code, noon.Text(), noon.Text(), 30_000_000, 3, 0}).Reply
		joined, err := proto.ReadShardsJoined(&reply)
		if known[wire.Code(code)] {
			require.NoError(t, err, code)
			require.Equal(t, wire.Code(code), joined.Code)
			continue
		}
		require.ErrorIs(t, err, wire.ErrUnreadable, code)
	}
}
