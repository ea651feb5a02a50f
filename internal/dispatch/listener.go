// SPDX-License-Identifier: Apache-2.0

package dispatch

import "slices"

// Hearer takes what a Listener hears. It is called by the reader of a connection, or by Listen, with
// no lock held, and must not block: everybody else's messages wait behind it.
type Hearer interface {
	// Heard takes a message.
	Heard(message string)
	// Subscribed says that messages arrive from here on. Those before it are lost, so what they
	// might have said is worth asking for: after the first subscription, and after each renewed
	// one.
	Subscribed()
}

// Listener is one registration for the messages of a channel.
type Listener struct {
	d       *Dispatcher
	hearer  Hearer
	channel *channel // nil where nothing will be heard: the dispatcher polls or is closed
	closed  bool     // guarded by d.mu
}

// Listen registers a listener for the messages that scripts tell by Publish on a channel in the
// slot of a lock.
func (d *Dispatcher) Listen(channel string, hearer Hearer) *Listener {
	return d.listen(channel, ofLock, hearer)
}

// ListenPlain registers a listener for the messages that are told by PUBLISH on a channel, in a
// cluster by whichever node.
func (d *Dispatcher) ListenPlain(channel string, hearer Hearer) *Listener {
	return d.listen(channel, plain, hearer)
}

func (d *Dispatcher) listen(name string, kind kind, hearer Hearer) *Listener {
	l := &Listener{d: d, hearer: hearer}
	d.mu.Lock()
	if d.mu.closed || d.polling {
		d.mu.Unlock()
		return l
	}
	c := d.channelLocked(name, kind)
	c.listeners = append(slices.Clip(c.listeners), l)
	l.channel = c
	isLive := c.state == live
	d.mu.Unlock()
	if isLive {
		hearer.Subscribed() // no confirmation will say so
	}
	return l
}

// IsLive reports whether messages on a channel arrive already: who listens to it now misses none.
func (d *Dispatcher) IsLive(channel string) bool {
	if d.count.Load() == 0 {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.mu.channels[channel]
	return c != nil && c.state == live
}

// Live answers a channel that is closed once messages arrive, and stays so when they cease to: ask
// again. Where subscriptions are refused it is not closed before they are granted.
func (l *Listener) Live() <-chan struct{} {
	l.d.mu.Lock()
	defer l.d.mu.Unlock()
	c := l.channel
	if c == nil {
		return make(chan struct{})
	}
	if c.alive == nil {
		c.alive = make(chan struct{})
		if c.state == live {
			close(c.alive)
		}
	}
	return c.alive
}

// Close ends the registration. What is being heard at that moment may still reach the hearer.
func (l *Listener) Close() {
	l.d.mu.Lock()
	defer l.d.mu.Unlock()
	c := l.channel
	if l.closed || c == nil {
		return
	}
	l.closed = true
	others := make([]*Listener, 0, len(c.listeners)-1)
	for _, other := range c.listeners {
		if other != l {
			others = append(others, other)
		}
	}
	c.listeners = others
	c.leftLocked()
}
