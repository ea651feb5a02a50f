// SPDX-License-Identifier: Apache-2.0

package dispatch

// hearing is whether messages arrive, and what the monitor knows of it. The lock of the dispatcher guards it.
type messageReport struct {
	unsubscribed map[*channel]struct{} // those whose subscription was lost or refused, and is not confirmed again
	reason       error                 // the reason of the last of them
	// lost is what the monitor was notified of last. reporting says that a goroutine will compare it with deaf once more.
	reportedLost, reporting bool
}

// deafLocked notes that no messages arrive on c, because of why.
func (c *channel) reportUnsubscribedLocked(why error) {
	h := &c.d.mu.messages
	if h.unsubscribed == nil {
		h.unsubscribed = make(map[*channel]struct{})
	}
	h.unsubscribed[c], h.reason = struct{}{}, why
	if !h.reportedLost {
		c.d.startReportLocked()
	}
}

// hearsLocked notes that messages arrive on c.
func (c *channel) reportSubscribedLocked() {
	h := &c.d.mu.messages
	delete(h.unsubscribed, c)
	if h.reportedLost && len(h.unsubscribed) == 0 {
		c.d.startReportLocked()
	}
}

// reportLocked lets a goroutine notify the monitor, unless there is one. There is one at a time, so what the monitor is
// notified of has an order, and the last of it is true.
func (d *Dispatcher) startReportLocked() {
	if h := &d.mu.messages; !h.reporting && !d.mu.closed {
		h.reporting = true
		d.running.Go(d.reportMessages) // closed is set before Close waits
	}
}

// report notifies the monitor until it knows whether messages arrive.
func (d *Dispatcher) reportMessages() {
	for {
		d.mu.Lock()
		h := &d.mu.messages
		lost, why := len(h.unsubscribed) > 0, h.reason
		h.reporting = lost != h.reportedLost && !d.mu.closed
		changed := h.reporting
		if changed {
			h.reportedLost = lost
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
