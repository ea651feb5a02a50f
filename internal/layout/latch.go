// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"github.com/signalbox-go/signalbox/internal/names"
	"github.com/signalbox-go/signalbox/scripts"
)

// Latch is the count-down latch in a layout.
type Latch struct {
	// RegistryName is the name of the registry that has the latches of this layout in a session.
	RegistryName string
	// Key returns the key of a latch, and EndedChannel the channel on which the end of a round is published.
	Key, EndedChannel func(n names.Set) string

	Start, Count, Poll, Reset *scripts.Script

	// AnonymousRounds says that rounds cannot be distinguished at the server: all have the stamp 1. So a step of unknown
	// outcome is never sent again, and a 0 on the channel does not say which round it is about. Start and
	// Poll also have the publishing command as an argument, and Poll a fence, see redisson/latch-read.
	AnonymousRounds bool
}

//nolint:gochecknoglobals // a constant table
var nativeLatch = Latch{
	RegistryName: "countdown",
	Key:          names.Set.Latch,
	EndedChannel: names.Set.Ended,
	Start:        scripts.CountdownStart,
	Count:        scripts.CountdownCount,
	Poll:         scripts.CountdownRead,
	Reset:        scripts.CountdownReset,
}

func redissonLatch(registry string) *Latch {
	return &Latch{
		RegistryName:    registry,
		Key:             func(n names.Set) string { return n.Holder },
		EndedChannel:    func(n names.Set) string { return names.RedissonLatch(n.Holder) },
		Start:           scripts.RedissonLatchStart,
		Count:           scripts.RedissonLatchCount,
		Poll:            scripts.RedissonLatchRead,
		Reset:           scripts.RedissonLatchReset,
		AnonymousRounds: true,
	}
}
