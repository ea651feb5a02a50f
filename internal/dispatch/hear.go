// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"errors"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox/internal/wire"
)

// What happens to a link: the client's hooks, called by the reader of the connection, the server's
// refusals, and the end. A channel listens to its own link only, so that what a connection still
// says after it was given up changes nothing.

// subscription is the client's hook: a subscription holds, or holds no more.
func (l *link) subscription(s rueidis.PubSubSubscription) {
	var listeners []*Listener
	l.d.mu.Lock()
	if c := l.d.mu.channels[address{s.Channel, l.kindOf(s.Kind)}]; c != nil && c.link == l {
		switch s.Kind {
		case "subscribe", "ssubscribe":
			// In another state than sent it confirms for a channel of that name that was dropped.
			if c.state == sent {
				if l.confirmed.IsZero() {
					l.confirmed = time.Now()
				}
				listeners = c.liveLocked()
			}
		case "sunsubscribe":
			// One that is live has not been dropped: its slot has left the node.
			if c.state == live {
				delete(l.d.mu.slots, c.slot)
				l.partLocked(c)
				l.d.homeLocked(c)
			}
		}
	}
	l.d.mu.Unlock()
	for _, listener := range listeners {
		listener.handler.OnSubscribed()
	}
}

// kindOf returns the kind of the channel that a confirmation of that kind is about.
func (l *link) kindOf(confirmed string) kind {
	if l.d.clustered && (confirmed == "subscribe" || confirmed == "unsubscribe") {
		return plain
	}
	return sharded
}

// message is the client's hook for a message. The hook does not say which kind of channel it came from. So if
// one connection has both kinds of a name, all users of both get it.
func (l *link) message(m rueidis.PubSubMessage) {
	var listeners []*Listener
	l.d.mu.Lock()
	for _, at := range l.d.addresses(m.Channel, BothChannels) {
		c := l.d.mu.channels[at]
		if c == nil || c.link != l {
			continue
		}
		for _, w := range c.waits {
			if !w.aside || !w.own(m.Message) {
				w.wake()
			}
		}
		listeners = together(listeners, c.listeners)
	}
	l.d.mu.Unlock()
	for _, listener := range listeners {
		listener.handler.OnMessage(m.Message)
	}
}

// together returns the listeners of both, each of them once, and writes to neither.
func together(some, others []*Listener) []*Listener {
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
func (l *link) refused(channels []*channel, refusals map[int]*rueidis.RedisError) {
	d := l.d
	var later []*channel
	nodes := d.client.Nodes()
	d.mu.Lock()
	for i, refusal := range refusals {
		c := channels[i]
		node, moved := refusal.IsMoved()
		if c.link != l {
			continue // dropped meanwhile
		}
		if !moved {
			c.deafLocked(refusal)
		}
		l.partLocked(c)
		switch {
		case moved && c.fails < freeMoves:
			c.fails++
			d.mu.slots[c.slot] = wire.KnownAs(node, l.node, nodes)
			d.homeLocked(c)
		default:
			delete(d.mu.slots, c.slot)
			later = append(later, c)
		}
	}
	if !d.mu.closed {
		d.laterLocked(later)
	}
	d.mu.Unlock()
}

// ended records that the connection has ended. Its channels are wanted again when the node has rested, on
// whichever node they are by then.
func (l *link) ended(err error) {
	d := l.d
	d.mu.Lock()
	delete(d.mu.links, l.node)
	for slot, node := range d.mu.slots {
		if node == l.node {
			delete(d.mu.slots, slot)
		}
	}
	var again time.Time
	if !errors.Is(err, errGone) {
		again = d.tiredLocked(l)
	}
	var listeners []*Listener
	for c := range l.channels {
		if c.state == live {
			listeners = append(listeners, c.listeners...) // one that has two channels may be there twice
			c.hastenLocked()
		}
		c.lostLocked()
		if !errors.Is(err, errGone) {
			c.deafLocked(err)
		}
		c.again = again
		d.mu.homeless = append(d.mu.homeless, c)
	}
	d.wakePlacerLocked()
	d.mu.Unlock()
	for _, listener := range listeners {
		listener.handler.OnUnsubscribed()
	}
}
