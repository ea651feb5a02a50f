// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"sync/atomic"
	"time"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/stamp"
)

// ServerClock knows the server's time from the last answer that told it and the monotonic
// time since. A guess is late by the time that the answer was on its way, and after a step of
// the server's clock wrong until the next answer. Its zero value knows nothing.
type ServerClock struct {
	offset atomic.Int64 // server time less monotonic time, in microseconds; 0 is unknown
}

// Known reports whether any answer told the time.
func (c *ServerClock) Known() bool { return c.offset.Load() != 0 }

// Told takes a server time out of an answer read just now. In a cluster the nodes' clocks
// differ: the last one wins, and a script refused for it as late tells the right one.
func (c *ServerClock) Told(server stamp.Stamp, now clock.Instant) {
	c.offset.Store(int64(server) - now.Mono().Microseconds())
}

// NotAfter answers the server time at which patience from now is over.
func (c *ServerClock) NotAfter(now clock.Instant, patience time.Duration) stamp.Stamp {
	return stamp.Stamp(c.offset.Load() + (now.Mono() + patience).Microseconds())
}
