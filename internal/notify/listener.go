// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Handler receives the messages of a Listener. The reader of a connection calls it, or Listen does, with no lock
// held. It must not block: all other messages wait behind it.
type Handler interface {
	// OnMessage receives a message.
	OnMessage(message string)
	// OnSubscribed is called when messages arrive from here on. Those before it are lost, so what they
	// might have said is worth asking for: after the first subscription, and after each renewed
	// one.
	OnSubscribed()
	// OnUnsubscribed is called when messages stop arriving, until OnSubscribed is called again. It may be
	// called twice.
	OnUnsubscribed()
}

// Listener is one registration for the messages of a channel.
type Listener struct {
	d        *Dispatcher
	handler  Handler
	channels [maxChannelsOfName]*channel // empty if no message will arrive: the dispatcher polls or is closed
	closed   bool                        // guarded by d.mu
}

// Listen registers a listener for the messages that scripts publish on channels of these types, for a name in the slot of
// a lock. With BothChannels it receives a message twice that is published on both.
func (d *Dispatcher) Listen(channel string, types ChannelTypes, handler Handler) *Listener {
	l := &Listener{d: d, handler: handler}
	d.mu.Lock()
	if d.mu.closed || d.polling {
		d.mu.Unlock()
		return l
	}
	isLive := false
	for i, address := range d.addresses(channel, types) {
		if address.name != "" {
			c := d.channelLocked(address)
			c.listeners = append(slices.Clip(c.listeners), l)
			l.channels[i] = c
			isLive = isLive || c.state == subscribed
		}
	}
	d.mu.Unlock()
	if isLive {
		handler.OnSubscribed() // no confirmation will say so
	}
	return l
}

// IsSubscribed reports whether messages on a channel in the slot of a lock arrive already: a listener that
// registers now misses none.
func (d *Dispatcher) IsSubscribed(channel string) bool {
	return d.isSubscribed(channel, ShardedChannel)
}

func (d *Dispatcher) isSubscribed(channel string, types ChannelTypes) bool {
	if d.count.Load() == 0 {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, address := range d.addresses(channel, types) {
		if c := d.mu.channels[address]; address.name != "" && (c == nil || c.state != subscribed) {
			return false
		}
	}
	return true
}

// Subscribed returns a channel that is closed once messages arrive, and stays closed when they cease: ask again,
// also if they come on two channels and one of them is subscribed to. If subscriptions are refused it is not closed
// before they are granted.
func (l *Listener) Subscribed() <-chan struct{} {
	l.d.mu.Lock()
	defer l.d.mu.Unlock()
	if l.channels[0] == nil {
		return make(chan struct{})
	}
	for _, c := range l.channels[1:] {
		if c != nil && c.state != subscribed {
			return c.subscribedLocked()
		}
	}
	return l.channels[0].subscribedLocked()
}

// Close ends the registration. A message that arrives at that moment may still reach the handler.
func (l *Listener) Close() {
	l.d.mu.Lock()
	defer l.d.mu.Unlock()
	if l.closed {
		return
	}
	l.closed = true
	for _, c := range l.channels {
		if c != nil {
			c.removeListenerLocked(l)
		}
	}
}

// Subscription is a Listener that the first of several goroutines opens and the last one closes, for good. The
// zero value is not open.
type Subscription struct {
	open     sync.Once
	listener atomic.Pointer[Listener] // nil before Open
	closed   atomic.Bool
}

// Open registers the listener, once. Do not call it under a lock that handler needs: if the channel is subscribed to
// already, Listen calls OnSubscribed at once. A Close meanwhile either finds the listener, or is found here.
func (s *Subscription) Open(d *Dispatcher, channel string, types ChannelTypes, handler Handler) {
	s.open.Do(func() {
		l := d.Listen(channel, types, handler)
		s.listener.Store(l)
		if s.closed.Load() {
			l.Close()
		}
	})
}

// Close ends the registration, also one that is about to begin.
func (s *Subscription) Close() {
	s.closed.Store(true)
	if l := s.listener.Load(); l != nil {
		l.Close()
	}
}

// PollInterval returns the pause between polls while few names are waited for.
func (s *Subscription) PollInterval() time.Duration {
	if s.IsUnsubscribed() {
		return UnsubscribedPollInterval
	}
	return PollInterval
}

// IsUnsubscribed reports whether messages do not arrive, as things are now. One that is not open yet is about to be.
func (s *Subscription) IsUnsubscribed() bool {
	l := s.listener.Load()
	if l == nil {
		return false
	}
	select {
	case <-l.Subscribed():
		return false
	default:
		return true
	}
}
