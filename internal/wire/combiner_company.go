// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"time"

	"github.com/signalbox-go/signalbox/internal/clock"
)

const (
	// near is the longest round trip to a server for which callers wait until a call ends. Several calls end in each
	// millisecond there, and the more callers go together, the less the server spends on each.
	near = 2 * time.Millisecond
	// firstCompany is how long a caller waits before any round trip was measured.
	firstCompany = time.Millisecond
	// firstSilence is how long the server may be silent before any round trip was measured.
	firstSilence = 100 * time.Millisecond
)

// company decides how long a caller waits in the queue for others to go with: until a call ends, and for a tenth of a
// round trip at the longest.
//
// A server that is silent gets no more calls after three round trips. Its callers wait in the queue until a call ends: one
// that gives up there has sent nothing, and there is nothing to take back.
type company struct {
	moved time.Duration // monotonic: when the last call ended, or the first was sent after none was under way
	timer *time.Timer   // nil before it is needed
	armed bool          // the timer runs, or what it starts has not got the lock yet
}

// limit returns for how long a caller waits for company. It is unlimited if the server is near.
func (c *Combiner) limit() (limit time.Duration, limited bool) {
	trip := c.runner.trip.known()
	if trip == 0 {
		return firstCompany, true
	}
	return trip / 10, trip > near
}

// silentLocked reports whether the server has not replied for longer than calls take.
func (c *Combiner) silentLocked(now time.Duration) bool {
	patience := 3 * c.runner.trip.known()
	if patience == 0 {
		patience = firstSilence
	}
	return now-c.mu.company.moved > patience
}

// armLocked starts the timer for the first of the queue. One that runs already is early enough: it was started for a
// request that came before.
func (c *Combiner) armLocked(now time.Duration) {
	m := &c.mu.company
	limit, limited := c.limit()
	if !limited || m.armed || c.mu.queue.size == 0 || c.silentLocked(now) {
		return
	}
	m.armed = true
	in := max(c.mu.queue.first.since+limit-now, 0)
	if m.timer == nil {
		m.timer = time.AfterFunc(in, c.fire) //nolint:forbidigo // Close stops it
	} else {
		m.timer.Reset(in)
	}
}

// fire sends the queue if its first request has waited for long enough. It may have been started for one that has gone.
func (c *Combiner) fire() {
	now := clock.Now().Mono()
	c.mu.Lock()
	defer c.mu.Unlock()
	m := &c.mu.company
	m.armed = false
	if c.mu.queue.size == 0 || c.silentLocked(now) {
		return
	}
	if limit, limited := c.limit(); !limited || now-c.mu.queue.first.since < limit {
		c.armLocked(now)
		return
	}
	for c.mu.queue.size > 0 {
		c.sendQueueLocked(now)
	}
}

func (m *company) stop() {
	if m.timer != nil {
		m.timer.Stop()
	}
}
