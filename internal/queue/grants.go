// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"iter"

	"github.com/signalbox-go/signalbox/internal/notify"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// grantListener receives the grants that are published on one channel, for all queues that use the channel.
type grantListener struct {
	registry *Queues
	channel  string

	// The mutex of the Queues guards the next two.

	queues int    // the number of queues that use the listener
	only   *Queue // the queue that uses the listener, as in a cluster; nil if others did, too

	notify.Subscription // has its own mutex
}

// listenerLocked returns the listener of a channel and counts q in.
func (r *Queues) listenerLocked(channel string, q *Queue) *grantListener {
	listener := r.mu.listeners[channel]
	if listener == nil {
		listener = &grantListener{registry: r, channel: channel, only: q}
		r.mu.listeners[channel] = listener
	} else {
		listener.only = nil
	}
	listener.queues++
	return listener
}

// queuesLocked yields the queues that use the listener. Thousands of queues with a listener each are not searched for it.
func (l *grantListener) queuesLocked() iter.Seq[*Queue] {
	return func(yield func(*Queue) bool) {
		if l.only != nil {
			if l.only.listener == l {
				yield(l.only)
			}
			return
		}
		for q := range l.registry.mu.queues.all() {
			if q.listener == l && !yield(q) {
				return
			}
		}
	}
}

// removeQueueLocked counts a queue out. It returns true if that was the last queue: then l is to be closed.
func (l *grantListener) removeQueueLocked() bool {
	l.queues--
	if l.queues > 0 {
		return false
	}
	delete(l.registry.mu.listeners, l.channel)
	return true
}

// OnSubscribed implements notify.Handler. Earlier messages may be lost, so it polls each queue in which an attempt may
// have been granted the lock, which is each queue for which an enter was sent.
func (l *grantListener) OnSubscribed() {
	registry := l.registry
	registry.mu.Lock()
	defer registry.mu.Unlock()
	for q := range l.queuesLocked() {
		if q.pendingSent > 0 {
			q.pollLocked()
		}
	}
}

// OnUnsubscribed implements notify.Handler. It brings the next polls forward, because a session without messages polls
// more often.
func (l *grantListener) OnUnsubscribed() {
	registry := l.registry
	registry.mu.Lock()
	defer registry.mu.Unlock()
	for q := range l.queuesLocked() {
		q.hastenPollLocked()
	}
}

// OnMessage implements notify.Handler.
func (l *grantListener) OnMessage(message string) { l.registry.applyGrants(message) }

// grantNotice is one grant of a message.
type grantNotice struct {
	attempt   string     // the id of the attempt within its session
	stamp     wire.Stamp // the stamp of the token
	heartbeat string     // the number of the heartbeat that paid for the grant
}

const attemptSize, stampSize, numberSize = 19, 16, 20

// parseGrants returns the grants of a message in order. It returns none if text is not such a message.
func parseGrants(text string) iter.Seq[grantNotice] {
	const size = attemptSize + stampSize + numberSize
	return func(yield func(grantNotice) bool) {
		if len(text)%size != 0 {
			return
		}
		for ; len(text) >= size; text = text[size:] {
			notice := grantNotice{
				attempt:   text[:attemptSize],
				stamp:     wire.ParseStamp(text[attemptSize : attemptSize+stampSize]),
				heartbeat: text[attemptSize+stampSize : size],
			}
			if notice.stamp != 0 && !yield(notice) {
				return
			}
		}
	}
}

// applyGrants handles a list of grants to attempts of this session.
func (r *Queues) applyGrants(text string) {
	if text == "" {
		return
	}
	now := timers.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for g := range parseGrants(text) {
		r.applyGrantLocked(g, now)
	}
}

// applyGrantLocked handles one grant. An unknown attempt belongs to a copy of this process, restored from a
// snapshot, or was released while the message was on its way, or before a failover. A hold without an attempt expires.
func (r *Queues) applyGrantLocked(g grantNotice, now timers.Instant) {
	if a := r.mu.attempts.get(g.attempt); a != nil {
		a.applyGrantLocked(g.stamp, g.heartbeat, now)
		return
	}
	r.leaveAgainLocked(g.attempt)
}
