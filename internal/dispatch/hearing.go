// SPDX-License-Identifier: Apache-2.0

package dispatch

// hearing is whether messages arrive, and what the monitor knows of it. The lock of the dispatcher guards it.
type hearing struct {
	deaf map[*channel]struct{} // those whose subscription was lost or refused, and is not confirmed again
	why  error                 // the reason of the last of them
	// lost is what the monitor was notified of last. reporting says that a goroutine will compare it with deaf once more.
	lost, reporting bool
}

// deafLocked notes that no messages arrive on c, because of why.
func (c *channel) deafLocked(why error) {
	h := &c.d.mu.hearing
	if h.deaf == nil {
		h.deaf = make(map[*channel]struct{})
	}
	h.deaf[c], h.why = struct{}{}, why
	if !h.lost {
		c.d.reportLocked()
	}
}

// hearsLocked notes that messages arrive on c.
func (c *channel) hearsLocked() {
	h := &c.d.mu.hearing
	delete(h.deaf, c)
	if h.lost && len(h.deaf) == 0 {
		c.d.reportLocked()
	}
}

// reportLocked lets a goroutine notify the monitor, unless there is one. There is one at a time, so what the monitor is
// notified of has an order, and the last of it is true.
func (d *Dispatcher) reportLocked() {
	if h := &d.mu.hearing; !h.reporting && !d.mu.closed {
		h.reporting = true
		d.running.Go(d.report) // closed is set before Close waits
	}
}

// report notifies the monitor until it knows whether messages arrive.
func (d *Dispatcher) report() {
	for {
		d.mu.Lock()
		h := &d.mu.hearing
		lost, why := len(h.deaf) > 0, h.why
		h.reporting = lost != h.lost && !d.mu.closed
		changed := h.reporting
		if changed {
			h.lost = lost
		}
		d.mu.Unlock()
		switch {
		case !changed:
			return
		case lost:
			d.monitor.MessagesLost(why)
		default:
			d.monitor.MessagesBack()
		}
	}
}
