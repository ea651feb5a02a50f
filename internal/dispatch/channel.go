// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"time"

	"github.com/signalbox-go/signalbox/internal/timers"
)

// Linger is how long a channel stays subscribed after its last waiter or listener left, so that
// locks which are waited for again and again do not cost a SUBSCRIBE each time.
const Linger = 3 * time.Second

// state is the state of a channel. See the package for the table.
type channelState int

const (
	unassigned  channelState = iota // it has no link: the placer sees to it
	assigned                        // its link is to subscribe to it
	subscribing                     // SUBSCRIBE is under way
	subscribed                      // confirmed: messages arrive
)

// channel is one address subscribed to. Guarded by the dispatcher's lock; address and slot do not
// change.
type channel struct {
	channelAddress

	d    *Dispatcher
	slot uint16 // in a cluster

	waits     []*Wait
	listeners []*Listener // replaced, never written to: hooks go through it without the lock
	confirmed chan struct{}
	linger    timers.Timer
	dropped   bool

	state     channelState
	conn      *nodeConn // nil while homeless
	fails     int       // moves and refusals since it was last confirmed
	notBefore time.Time // not to be placed before
}

// channelLocked returns the channel of an address, for one user more.
func (d *Dispatcher) channelLocked(address channelAddress) *channel {
	c := d.mu.channels[address]
	if c != nil {
		d.timers.Cancel(&c.linger)
		return c
	}
	c = &channel{d: d, channelAddress: address}
	c.linger.Init(c)
	if d.clustered {
		c.slot = d.server.Slot(address.name)
	}
	d.mu.channels[address] = c
	d.count.Add(1)
	d.assignLocked(c)
	return c
}

// leftLocked records that a user has left.
func (c *channel) lingerIfUnusedLocked() {
	if len(c.waits)+len(c.listeners) == 0 && !c.d.mu.closed {
		c.d.timers.Schedule(&c.linger, Linger)
	}
}

// Fire implements timers.Event: the linger is over, and the channel is forgotten. A later user makes it anew; if it
// has the same link, its SUBSCRIBE follows on the same connection, and is confirmed again.
func (c *channel) Fire() {
	d := c.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(c.waits)+len(c.listeners) > 0 || c.dropped || d.mu.closed {
		return // a new user came meanwhile
	}
	delete(d.mu.channels, c.channelAddress)
	delete(d.mu.messages.unsubscribed, c) // which is no news: no message has arrived
	d.count.Add(-1)
	c.dropped = true
	if len(d.mu.channels) == 0 {
		clear(d.mu.backOffs)
	}
	if c.conn == nil {
		d.wakeAssignerLocked() // it may have slept for this one alone
		return
	}
	if c.state != assigned {
		c.conn.dropLocked(c)
	}
	c.conn.removeLocked(c)
}

// liveLocked records that the subscription is confirmed. The waiters poll again, since messages before this
// moment did not reach us.
func (c *channel) confirmedLocked() []*Listener {
	c.state, c.fails = subscribed, 0
	c.reportSubscribedLocked()
	if c.confirmed != nil {
		close(c.confirmed)
	}
	for _, w := range c.waits {
		if !w.backedOff {
			w.wake()
		}
	}
	return c.listeners
}

// aliveLocked returns what is closed once the subscription holds.
func (c *channel) subscribedLocked() <-chan struct{} {
	if c.confirmed == nil {
		c.confirmed = make(chan struct{})
		if c.state == subscribed {
			close(c.confirmed)
		}
	}
	return c.confirmed
}

// deafenLocked removes a listener.
func (c *channel) removeListenerLocked(l *Listener) {
	others := make([]*Listener, 0, len(c.listeners)-1)
	for _, other := range c.listeners {
		if other != l {
			others = append(others, other)
		}
	}
	c.listeners = others
	c.lingerIfUnusedLocked()
}

// lostLocked records that the channel is no longer subscribed to: it has no link any more.
func (c *channel) unassignLocked() {
	if c.state == subscribed {
		c.confirmed = nil // closed; later callers wait for the next confirmation
	}
	c.state, c.conn = unassigned, nil
}
