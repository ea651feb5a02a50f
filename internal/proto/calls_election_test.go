// SPDX-License-Identifier: Apache-2.0

package proto_test

import (
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/scripts"
)

var electionCalls = []callRow{
	{scripts.ElectionPut, &proto.ElectionPut{}},
	{scripts.ElectionClear, &proto.ElectionClear{}},
	{scripts.ElectionMove, &proto.ElectionMove{}},
	{scripts.ElectionRequested, &proto.ElectionRequested{}},
}
