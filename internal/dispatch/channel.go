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
type state int

const (
	homeless state = iota // it has no link: the placer sees to it
	wanted                // its link is to subscribe to it
	sent                  // SUBSCRIBE is under way
	live                  // confirmed: messages arrive
)

// channel is one address subscribed to. Guarded by the dispatcher's lock; address and slot do not
// change.
type channel struct {
	address

	d    *Dispatcher
	slot uint16 // in a cluster

	waits     []*Wait
	listeners []*Listener // replaced, never written to: hooks go through it without the lock
	alive     chan struct{}
	linger    timers.Timer
	dropped   bool

	state state
	link  *link     // nil while homeless
	fails int       // moves and refusals since it was last confirmed
	again time.Time // not to be placed before
}

// channelLocked returns the channel of an address, for one user more.
func (d *Dispatcher) channelLocked(at address) *channel {
	c := d.mu.channels[at]
	if c != nil {
		d.timers.Cancel(&c.linger)
		return c
	}
	c = &channel{d: d, address: at}
	c.linger.Init(c)
	if d.clustered {
		c.slot = d.server.Slot(at.name)
	}
	d.mu.channels[at] = c
	d.count.Add(1)
	d.homeLocked(c)
	return c
}

// leftLocked records that a user has left.
func (c *channel) leftLocked() {
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
	delete(d.mu.channels, c.address)
	delete(d.mu.hearing.deaf, c) // which is no news: no message has arrived
	d.count.Add(-1)
	c.dropped = true
	if len(d.mu.channels) == 0 {
		clear(d.mu.rests)
	}
	if c.link == nil {
		d.wakePlacerLocked() // it may have slept for this one alone
		return
	}
	if c.state != wanted {
		c.link.dropLocked(c)
	}
	c.link.partLocked(c)
}

// liveLocked records that the subscription is confirmed. The waiters poll again, since messages before this
// moment did not reach us.
func (c *channel) liveLocked() []*Listener {
	c.state, c.fails = live, 0
	c.hearsLocked()
	if c.alive != nil {
		close(c.alive)
	}
	for _, w := range c.waits {
		if !w.aside {
			w.wake()
		}
	}
	return c.listeners
}

// aliveLocked returns what is closed once the subscription holds.
func (c *channel) aliveLocked() <-chan struct{} {
	if c.alive == nil {
		c.alive = make(chan struct{})
		if c.state == live {
			close(c.alive)
		}
	}
	return c.alive
}

// deafenLocked removes a listener.
func (c *channel) deafenLocked(l *Listener) {
	others := make([]*Listener, 0, len(c.listeners)-1)
	for _, other := range c.listeners {
		if other != l {
			others = append(others, other)
		}
	}
	c.listeners = others
	c.leftLocked()
}

// lostLocked records that the channel is no longer subscribed to: it has no link any more.
func (c *channel) lostLocked() {
	if c.state == live {
		c.alive = nil // closed; later callers wait for the next confirmation
	}
	c.state, c.link = homeless, nil
}
