// SPDX-License-Identifier: Apache-2.0

package proto_test

import (
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/scripts"
)

var holderCalls = []callRow{
	{scripts.HolderForce, &proto.Force{}},
	{scripts.HolderRenew, &proto.Renewal{}},
	{scripts.HoldsRenew, &proto.Renewal{}},
	{scripts.LockKeep, &proto.Renewal{}},
	{scripts.HoldsList, &proto.HoldsList{}},
	{scripts.Load("redisson/rwlock-list", 1), &proto.HoldsList{}},
	{scripts.Load("redisson/permit-list", 1), &proto.HoldsList{}},
	{scripts.Load("redisson/permit-force", 1), &proto.PermitsForce{}},
}
