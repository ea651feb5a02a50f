// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"sync/atomic"
	"time"

	"github.com/signalbox-go/signalbox/internal/clock"
)

// ServerClock knows the server's time from the last reply that contained it, and the monotonic time since. A
// guess is late by the time that the reply was on its way, and after a step of the server's clock it is wrong
// until the next reply.
//
// The nodes of a cluster have clocks of their own, and the slot decides which node executes a script: there
// the time is known by slot. So it is where several shards stand behind one endpoint, from the first reply on whose
// time differs from that of the one before. For a slot without a known time the last reply of any slot is the guess.
// If that is behind its node's clock, a script is refused as late, once, and the refusal contains the time; if it is
// ahead, the script may take effect for longer. However far the nodes are apart, one slot does not disturb
// the others.
type ServerClock struct {
	last  atomic.Int64                        // an offset, of any slot
	slots atomic.Pointer[[slots]atomic.Int64] // offsets by slot; nil while one clock is enough
}

// An offset is server time less monotonic time, in microseconds; 0 is unknown.

// apart is by how many microseconds two offsets differ if they are taken for those of two clocks. Replies of one
// server differ by the times that they were on their way. If those differ by more, the memory is wasted, and nothing
// else.
const apart = 10_000

// NewServerClock returns the clock of a runner's server, which knows nothing yet. By slot it needs 128 KiB.
func NewServerClock(r *Runner) *ServerClock {
	c := &ServerClock{}
	if r.Clustered() {
		c.slots.Store(new([slots]atomic.Int64))
	}
	return c
}

// Known reports whether a reply has contained the time.
func (c *ServerClock) Known() bool { return c.last.Load() != 0 }

// Told records a server time from a reply for a key of slot, read just now.
func (c *ServerClock) Told(slot uint16, server Stamp, now clock.Instant) {
	offset := int64(server) - now.Mono().Microseconds()
	last := c.last.Swap(offset)
	bySlot := c.slots.Load()
	if bySlot == nil && last != 0 && max(offset-last, last-offset) > apart {
		c.slots.CompareAndSwap(nil, new([slots]atomic.Int64))
		bySlot = c.slots.Load()
	}
	if bySlot != nil {
		bySlot[slot%slots].Store(offset)
	}
}

// NotAfter returns the time, at the server of slot, at which patience from now is over.
func (c *ServerClock) NotAfter(slot uint16, now clock.Instant, patience time.Duration) Stamp {
	offset := c.last.Load()
	if bySlot := c.slots.Load(); bySlot != nil {
		if own := bySlot[slot%slots].Load(); own != 0 {
			offset = own
		}
	}
	return Stamp(offset + (now.Mono() + patience).Microseconds())
}
