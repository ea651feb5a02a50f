// SPDX-License-Identifier: Apache-2.0

package dispatch

// messageReport is whether messages arrive, and what the monitor was notified of. The lock of the dispatcher guards it.
type messageReport struct {
	unsubscribed map[*channel]struct{} // the channels whose subscription was lost or refused, and not confirmed since
	reason       error                 // why the last channel was lost or refused
	// reportedLost is what the monitor was notified of last. reporting says that a goroutine will compare it with unsubscribed once more.
	reportedLost, reporting bool
}

// reportUnsubscribedLocked notes that no messages arrive on c, because of why.
func (c *channel) reportUnsubscribedLocked(why error) {
	m := &c.d.mu.messages
	if m.unsubscribed == nil {
		m.unsubscribed = make(map[*channel]struct{})
	}
	m.unsubscribed[c], m.reason = struct{}{}, why
	if !m.reportedLost {
		c.d.startReportLocked()
	}
}

// reportSubscribedLocked notes that messages arrive on c.
func (c *channel) reportSubscribedLocked() {
	m := &c.d.mu.messages
	delete(m.unsubscribed, c)
	if m.reportedLost && len(m.unsubscribed) == 0 {
		c.d.startReportLocked()
	}
}

// startReportLocked lets a goroutine notify the monitor, unless one does. There is one at a time, so the
// notifications have an order, and the last one is true.
func (d *Dispatcher) startReportLocked() {
	if m := &d.mu.messages; !m.reporting && !d.mu.closed {
		m.reporting = true
		d.running.Go(d.reportMessages) // closed is set before Close waits
	}
}

// reportMessages notifies the monitor until it knows whether messages arrive.
func (d *Dispatcher) reportMessages() {
	for {
		d.mu.Lock()
		m := &d.mu.messages
		lost, why := len(m.unsubscribed) > 0, m.reason
		m.reporting = lost != m.reportedLost && !d.mu.closed
		changed := m.reporting
		if changed {
			m.reportedLost = lost
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
