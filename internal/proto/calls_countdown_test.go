// SPDX-License-Identifier: Apache-2.0

package proto_test

import (
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/scripts"
)

var countdownCalls = []callRow{
	{scripts.CountdownStart, &proto.CountdownStart{}},
	{scripts.CountdownCount, &proto.CountdownCount{}},
	{scripts.CountdownReset, &proto.CountdownReset{}},
	{scripts.Load("redisson/latch-start", 1), &publishingStart{}},
	{scripts.Load("redisson/latch-count", 1), &proto.CountdownCount{}},
	{scripts.Load("redisson/latch-reset", 1), &proto.CountdownReset{}},
	{scripts.Load("redisson/latch-read", 1), &proto.CountdownPoll{}},
}

// publishingStart is the start of a layout that publishes.
type publishingStart struct{ proto.CountdownStart }

func (c *publishingStart) AppendTo(args []string) []string { return c.AppendPublishing(args) }
