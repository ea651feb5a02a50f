// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"iter"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/dispatch"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// grantListener receives the grants that are published on one channel, for all queues that use the channel.
type grantListener struct {
	registry *Registry
	channel  string
	queues   int // the number of queues that use the listener; guarded by the mutex of the Registry

	dispatch.Subscription // has its own mutex
}

// listenerLocked returns the listener of a channel and counts a queue in.
func (r *Registry) listenerLocked(channel string) *grantListener {
	listener := r.mu.listeners[channel]
	if listener == nil {
		listener = &grantListener{registry: r, channel: channel}
		r.mu.listeners[channel] = listener
	}
	listener.queues++
	return listener
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

// OnSubscribed implements dispatch.Handler. Earlier messages may be lost, so it polls each queue in which an attempt may
// have been granted the lock, which is each queue for which an enter was sent.
func (l *grantListener) OnSubscribed() {
	registry := l.registry
	registry.mu.Lock()
	defer registry.mu.Unlock()
	for _, q := range registry.mu.queues {
		if q.listener == l && q.pendingSent > 0 {
			q.pollLocked()
		}
	}
}

// OnUnsubscribed implements dispatch.Handler. It brings the next polls forward, because a session without messages polls
// more often.
func (l *grantListener) OnUnsubscribed() {
	registry := l.registry
	registry.mu.Lock()
	defer registry.mu.Unlock()
	for _, q := range registry.mu.queues {
		if q.listener == l {
			q.hastenPollLocked()
		}
	}
}

// OnMessage implements dispatch.Handler.
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
func (r *Registry) applyGrants(text string) {
	if text == "" {
		return
	}
	now := clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for g := range parseGrants(text) {
		r.applyGrantLocked(g, now)
	}
}

// applyGrantLocked handles one grant. An unknown attempt belongs to a copy of this process, restored from a
// snapshot, or was released while the message was on its way. A hold without an attempt expires.
func (r *Registry) applyGrantLocked(g grantNotice, now clock.Instant) {
	if a := r.mu.attempts[g.attempt]; a != nil {
		a.applyGrantLocked(g.stamp, g.heartbeat, now)
	}
}
