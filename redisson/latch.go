// SPDX-License-Identifier: Apache-2.0

package redisson

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// latch returns RCountDownLatch, whose rounds cannot be distinguished at the server.
func latch(registry string) *proto.LatchTable {
	return &proto.LatchTable{
		RegistryName: registry,
		Key:          func(n proto.Set) string { return n.Holder },
		EndedChannel: func(n proto.Set) string { return latchChannel(n.Holder) },
		Start:        latchStartScript,
		Count:        latchCountScript,
		Poll:         latchReadScript,
		Reset:        latchResetScript,
		StartArgs:    proto.CountdownStart.AppendPublishing,
		PollArgs:     proto.CountdownPoll.AppendTo,
		SoleRound:    1,
		StepsOnce:    true,
		NewEvidence:  func(wire.Stamp) proto.Evidence { return new(fencedEvidence) },
	}
}

// maxFences is how many fences may be on their way to a waiter. The others will not come any more.
const maxFences = 16

// The messages of a latch: a round has opened; a round was started, or deleted.
const messageOpened, messageChanged = "0", "1"

// fencedEvidence is what messages and polls have said to a waiter for a round. It implements proto.Evidence.
//
// A message may be the late end of the round before, or of the latch of that name in another database, which has the same
// channel. So a poll has to confirm it. A poll that finds the latch running publishes its fence, and messages of a channel
// keep their order. So a fence behind the end of a round says that a new round has begun, if a start was reported between, and
// else that the end was another's.
type fencedEvidence struct {
	fences   []string // what the last polls publish if they find the round running
	fenced   bool     // a fence was received: an end that is reported from here on may be the end of this round
	reported bool     // a message reported an end, which a poll is to confirm
	changed  bool     // a start was reported since the message that set reported
	polled   bool     // a poll found the round running
}

// Fence implements proto.Evidence: a waiter that has received no fence publishes a unique number, which Redisson ignores.
func (e *fencedEvidence) Fence(fence string) string {
	if e.fenced {
		return fence
	}
	if fence == "" {
		fence = strconv.FormatInt(2+rand.Int64N(math.MaxInt64-2), 10)
	}
	e.fences = append(e.fences[max(0, len(e.fences)-maxFences+1):], fence)
	return fence
}

// OnRunning implements proto.Evidence.
func (e *fencedEvidence) OnRunning(string) (again bool) {
	again, e.polled = e.reported && !e.polled, true
	return again
}

// OnMessage implements proto.Evidence. Fences of others are worth no poll: they would cause each other.
func (e *fencedEvidence) OnMessage(message string, end func(err error)) (poll bool) {
	switch {
	case message == messageOpened:
		if e.fenced { // only a fence of a poll from here on counts
			e.reported, e.changed, e.fenced, e.fences = true, false, false, nil
		}
		return true
	case message == messageChanged:
		e.changed = true
		return true
	case !slices.Contains(e.fences, message):
	case e.reported && e.changed:
		end(nil)
	default:
		e.fenced, e.reported = true, false
	}
	return false
}
