// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"slices"
	"time"

	"github.com/signalbox-go/signalbox/internal/timers"
)

// Linger is how long a channel stays subscribed after its last waiter or listener left, so that
// locks which are waited for again and again do not cost a SUBSCRIBE each time.
const Linger = 3 * time.Second

// channelState is the state of a channel. The package documentation has the table.
type channelState int

const (
	unassigned  channelState = iota // it has no connection yet: the assigner finds its node
	assigned                        // its connection is to subscribe to it
	subscribing                     // SUBSCRIBE is under way
	subscribed                      // confirmed: messages arrive
)

// channel is the subscription to one address. The dispatcher's lock guards it; address and slot never change.
type channel struct {
	channelAddress

	d    *Dispatcher
	slot uint16 // the slot of the name, in a cluster

	waits     []*Wait       // the waits of the channel, each of which knows its slot
	listeners []*Listener   // a slice that is replaced and never written to: hooks read it without the lock
	confirmed chan struct{} // closed once the subscription holds; nil until a caller asks for it
	linger    timers.Timer
	dropped   bool

	state     channelState
	conn      *nodeConn // nil while unassigned
	fails     int       // moves and refusals since the last confirmation
	notBefore time.Time // when the channel may be assigned to a node again
}

// channelLocked returns the channel of an address for a new user.
func (d *Dispatcher) channelLocked(address channelAddress) *channel {
	c := d.mu.channels[address]
	if c != nil {
		d.timers.Cancel(&c.linger)
		return c
	}
	c = &channel{d: d, channelAddress: address}
	c.linger.Init(c)
	if d.server.Clustered() {
		c.slot = d.server.Slot(address.name)
	}
	d.mu.channels[address] = c
	d.count.Add(1)
	d.assignLocked(c)
	return c
}

// lingerIfUnusedLocked starts the linger when the last user has left.
func (c *channel) lingerIfUnusedLocked() {
	if len(c.waits)+len(c.listeners) == 0 && !c.d.mu.closed {
		c.d.timers.Schedule(&c.linger, Linger)
	}
}

// Fire implements timers.Firer: the linger is over, and the channel is forgotten. A later user makes it anew; if it
// has the same connection, its SUBSCRIBE follows on the same connection, and is confirmed again.
func (c *channel) Fire() {
	d := c.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(c.waits)+len(c.listeners) > 0 || c.dropped || d.mu.closed {
		return // a new user came meanwhile
	}
	delete(d.mu.channels, c.channelAddress)
	delete(d.mu.messages.unsubscribed, c) // without a report: no message has arrived
	d.count.Add(-1)
	c.dropped = true
	if len(d.mu.channels) == 0 {
		clear(d.mu.backOffs)
	}
	if c.conn == nil {
		d.wakeAssignerLocked() // the assigner may have slept for this channel alone
		return
	}
	if c.state != assigned {
		c.conn.dropLocked(c)
	}
	c.conn.removeLocked(c)
}

// confirmedLocked records that the subscription is confirmed. The waiters poll again, since messages before this
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

// subscribedLocked returns a channel that is closed once the subscription holds.
func (c *channel) subscribedLocked() <-chan struct{} {
	if c.confirmed == nil {
		c.confirmed = make(chan struct{})
		if c.state == subscribed {
			close(c.confirmed)
		}
	}
	return c.confirmed
}

func (c *channel) removeListenerLocked(l *Listener) {
	c.listeners = slices.DeleteFunc(slices.Clone(c.listeners), func(other *Listener) bool { return other == l })
	c.lingerIfUnusedLocked()
}

// addWaitLocked adds a wait, of which c is the n-th channel.
func (c *channel) addWaitLocked(w *Wait, n int) {
	w.channels[n], w.slots[n] = c, uint32(len(c.waits)) //nolint:gosec // as many waits do not fit in memory
	c.waits = append(c.waits, w)
}

// removeWaitLocked removes a wait, of which c is the n-th channel. The last wait takes its slot, so that thousands that end at once do
// not search for themselves among each other.
func (c *channel) removeWaitLocked(w *Wait, n int) {
	end := len(c.waits) - 1
	last := c.waits[end]
	c.waits[end], c.waits = nil, c.waits[:end]
	if last != w {
		c.waits[w.slots[n]] = last
		last.slots[slices.Index(last.channels[:], c)] = w.slots[n]
	}
	c.lingerIfUnusedLocked()
}

// unassignLocked records that the channel is no longer subscribed to and has no connection any more.
func (c *channel) unassignLocked() {
	if c.state == subscribed {
		c.confirmed = nil // closed; later callers wait for the next confirmation
	}
	c.state, c.conn = unassigned, nil
}

// ChannelTypes says on which channels the events of a lock are published in a cluster, and listened for. Elsewhere
// there is one channel, and PUBLISH.
type ChannelTypes uint8

const (
	// ShardedChannel is a sharded channel: the node that has the slot of the lock publishes.
	ShardedChannel ChannelTypes = iota
	// PlainChannel is a plain channel: every node publishes.
	PlainChannel
	// BothChannels are a sharded channel and a plain one of the same name, for a lock that is shared with
	// programs that use one or the other.
	BothChannels
)

// channelType is the kind of one channel.
type channelType uint8

const (
	sharded channelType = iota
	plain
)

// channelAddress identifies a channel: the two kinds of one name are two channels.
type channelAddress struct {
	name        string
	channelType channelType
}

// maxChannelsOfName is how many channels there are for one name.
const maxChannelsOfName = 2

// DisableShardedChannels records that the server is a cluster without sharded channels, as an embedded server
// may be. Then every message is sent by PUBLISH and received on a plain channel. Call it at the
// first contact with the server, before the first message or wait. Every session of that server
// finds the same, so that they get each other's messages. A missing right to sharded channels is no
// reason to call it: other sessions may have the right.
func (d *Dispatcher) DisableShardedChannels() { d.unsharded.Store(true) }

// addresses returns the channels on which messages of a name arrive, for these types; an address without a name is
// unused. Outside a cluster everything is published by PUBLISH and arrives on one channel.
func (d *Dispatcher) addresses(name string, types ChannelTypes) (all [maxChannelsOfName]channelAddress) {
	switch {
	case !d.server.Clustered():
		all[0] = channelAddress{name, sharded}
	case types == PlainChannel || d.unsharded.Load():
		all[0] = channelAddress{name, plain}
	case types == ShardedChannel:
		all[0] = channelAddress{name, sharded}
	default:
		all[0], all[1] = channelAddress{name, sharded}, channelAddress{name, plain}
	}
	return all
}

// PublishCommands returns the commands by which scripts publish on these types of channels, separated by a blank. They reach
// waiters and listeners of the same types, and with BothChannels those of either.
func (d *Dispatcher) PublishCommands(types ChannelTypes) string {
	switch {
	case !d.server.Clustered() || types == PlainChannel || d.unsharded.Load():
		return "PUBLISH"
	case types == ShardedChannel:
		return "SPUBLISH"
	}
	return "SPUBLISH PUBLISH"
}
