// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"errors"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox/internal/wire"
)

// What happens to a connection: the client's hooks, called by the reader of the connection, the server's
// refusals, and the end. A channel accepts reports of its own connection only, so that a connection that was
// given up changes nothing.

// subscription is the client's hook: a subscription holds, or holds no more.
func (nc *nodeConn) subscription(s rueidis.PubSubSubscription) {
	var listeners []*Listener
	nc.d.mu.Lock()
	if c := nc.d.mu.channels[channelAddress{s.Channel, nc.typeOf(s.Kind)}]; c != nil && c.conn == nc {
		switch s.Kind {
		case "subscribe", "ssubscribe":
			// In another state than subscribing it confirms a channel of that name that was dropped.
			if c.state == subscribing {
				if nc.confirmed.IsZero() {
					nc.confirmed = time.Now()
				}
				listeners = c.confirmedLocked()
			}
		case "sunsubscribe":
			// A channel that is subscribed has not been dropped: its slot has left the node.
			if c.state == subscribed {
				delete(nc.d.mu.slots, c.slot)
				nc.removeLocked(c)
				nc.d.assignLocked(c)
			}
		}
	}
	nc.d.mu.Unlock()
	for _, listener := range listeners {
		listener.handler.OnSubscribed()
	}
}

// typeOf returns the type of the channel that a confirmation of that kind is about.
func (nc *nodeConn) typeOf(confirmed string) channelType {
	if nc.d.server.Clustered() && (confirmed == "subscribe" || confirmed == "unsubscribe") {
		return plain
	}
	return sharded
}

// message is the client's hook for a message. The hook does not say which type of channel it came from. So if
// one connection has both channels of a name, all users of both get it.
func (nc *nodeConn) message(m rueidis.PubSubMessage) {
	var listeners []*Listener
	nc.d.mu.Lock()
	for _, address := range nc.d.addresses(m.Channel, BothChannels) {
		c := nc.d.mu.channels[address]
		if c == nil || c.conn != nc {
			continue
		}
		for _, w := range c.waits {
			if !w.backedOff || !w.isOwn(m.Message) {
				w.wake()
			}
		}
		listeners = union(listeners, c.listeners)
	}
	nc.d.mu.Unlock()
	for _, listener := range listeners {
		listener.handler.OnMessage(m.Message)
	}
}

// union returns the listeners of both slices, each once, and writes to neither.
func union(some, others []*Listener) []*Listener {
	if len(some) == 0 {
		return others
	}
	some = slices.Clip(some)
	for _, other := range others {
		if !slices.Contains(some, other) {
			some = append(some, other)
		}
	}
	return some
}

// refused handles refused subscriptions: channels that belong to another node move, and the others are asked
// for again after a pause.
func (nc *nodeConn) refused(channels []*channel, refusals map[int]*rueidis.RedisError) {
	d := nc.d
	var later []*channel
	nodes := d.client.Nodes()
	d.mu.Lock()
	for i, refusal := range refusals {
		c := channels[i]
		node, moved := refusal.IsMoved()
		if c.conn != nc {
			continue // dropped meanwhile
		}
		if !moved {
			c.reportUnsubscribedLocked(refusal)
		}
		nc.removeLocked(c)
		switch {
		case moved && c.fails < freeMoves:
			c.fails++
			d.mu.slots[c.slot] = wire.KnownAs(node, nc.node, nodes)
			d.assignLocked(c)
		default:
			delete(d.mu.slots, c.slot)
			later = append(later, c)
		}
	}
	if !d.mu.closed {
		d.retryLaterLocked(later)
	}
	d.mu.Unlock()
}

// ended records that the connection has ended. Its channels are assigned again after the back-off of the node, to
// the node that has them by then.
func (nc *nodeConn) ended(err error) {
	d := nc.d
	d.mu.Lock()
	delete(d.mu.conns, nc.node)
	for slot, node := range d.mu.slots {
		if node == nc.node {
			delete(d.mu.slots, slot)
		}
	}
	var again time.Time
	if !errors.Is(err, errReplaced) {
		again = d.backOffLocked(nc)
	}
	var listeners []*Listener
	for c := range nc.channels {
		if c.state == subscribed {
			listeners = append(listeners, c.listeners...) // a listener that has two channels may be there twice
			c.pollSoonerLocked()
		}
		c.unassignLocked()
		if !errors.Is(err, errReplaced) {
			c.reportUnsubscribedLocked(err)
		}
		c.notBefore = again
		d.mu.unassigned = append(d.mu.unassigned, c)
	}
	d.wakeAssignerLocked()
	d.mu.Unlock()
	for _, listener := range listeners {
		listener.handler.OnUnsubscribed()
	}
}

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
