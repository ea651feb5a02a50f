// SPDX-License-Identifier: Apache-2.0

package proto_test

import (
	"github.com/signalbox-go/signalbox/internal/proto"
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
