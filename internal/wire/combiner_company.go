// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"time"

	"github.com/signalbox-go/signalbox/internal/clock"
)

const (
	// near is the longest round trip to a server for which callers wait until a call ends. Several
	// calls end there in each millisecond, and the more callers are sent together, the less the
	// server spends on each.
	near = 2 * time.Millisecond
	// firstCompany is how long a caller waits before any round trip was measured.
	firstCompany = time.Millisecond
	// firstSilence is how long the server may be silent before any round trip was measured.
	firstSilence = 100 * time.Millisecond
)

// company decides how long a caller waits in the queue for others to be sent with: until a call
// ends, or for a tenth of a round trip, whichever is shorter.
//
// A silent server gets no more calls after three round trips. Its callers wait in the queue until a
// call ends. A caller that gives up there has sent nothing, so there is nothing to undo.
type company struct {
	moved time.Duration // monotonic: when the last call ended, or when one was sent while none was under way
	timer *time.Timer   // nil before it is needed
	armed bool          // the timer runs, or fire waits for the lock
}

// limit returns how long a caller waits for others. There is no limit if the server is near.
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

// armLocked starts the timer for the first request of the queue. A timer that runs already is early
// enough: it was started for an earlier request.
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

// fire sends the queue if its first request has waited long enough. The timer may have been started
// for a request that has left.
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
