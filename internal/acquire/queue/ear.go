// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"iter"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/dispatch"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// ear is one channel on which grants are heard, for all queues that are notified on it.
type grantListener struct {
	registry *Registry
	channel  string
	queues   int // lines; guarded by the lock of its Lines

	dispatch.Subscription // guarded by itself
}

// earLocked returns the listener of a channel and counts a queue in.
func (ls *Registry) listenerLocked(channel string) *grantListener {
	e := ls.mu.listeners[channel]
	if e == nil {
		e = &grantListener{registry: ls, channel: channel}
		ls.mu.listeners[channel] = e
	}
	e.queues++
	return e
}

// leaveLocked counts a queue out. It reports whether that was the last one, and e is to be closed.
func (e *grantListener) removeQueueLocked() bool {
	e.queues--
	if e.queues > 0 {
		return false
	}
	delete(e.registry.mu.listeners, e.channel)
	return true
}

// Subscribed implements dispatch.Hearer: messages before now may be lost, so each queue is polled in which an attempt
// may have been granted the lock. If no enter was sent yet, none was.
func (e *grantListener) OnSubscribed() {
	ls := e.registry
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, q := range ls.mu.queues {
		if q.listener == e && q.pendingSent > 0 {
			q.pollLocked()
		}
	}
}

// Lost implements dispatch.Hearer: it brings the next polls forward, to those of a session that
// hears no messages.
func (e *grantListener) OnUnsubscribed() {
	ls := e.registry
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, q := range ls.mu.queues {
		if q.listener == e {
			q.hastenPollLocked()
		}
	}
}

// Heard implements dispatch.Hearer: grants.
func (e *grantListener) OnMessage(message string) { e.registry.applyGrants(message) }

// grant is one grant of a message: the attempt, the stamp of its token, and the number of the heartbeat that
// paid for it.
type grantNotice struct {
	attempt   string
	stamp     wire.Stamp
	heartbeat string
}

const attemptSize, stampSize, numberSize = 19, 16, 20

// grants returns the grants of a message in order; none if text is no such message.
func parseGrants(text string) iter.Seq[grantNotice] {
	const size = attemptSize + stampSize + numberSize
	return func(yield func(grantNotice) bool) {
		if len(text)%size != 0 {
			return
		}
		for ; len(text) >= size; text = text[size:] {
			t := grantNotice{
				attempt:   text[:attemptSize],
				stamp:     wire.ParseStamp(text[attemptSize : attemptSize+stampSize]),
				heartbeat: text[attemptSize+stampSize : size],
			}
			if t.stamp != 0 && !yield(t) {
				return
			}
		}
	}
}

// granted handles the message that attempts of this session have the lock.
func (ls *Registry) applyGrants(text string) {
	if text == "" {
		return
	}
	now := clock.Now()
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for g := range parseGrants(text) {
		ls.applyGrantLocked(g, now)
	}
}

// grantedLocked handles one grant. An unknown attempt belongs to a copy of this process, restored from a
// snapshot, or was released while the message was on its way. A hold without an attempt expires.
func (ls *Registry) applyGrantLocked(g grantNotice, now clock.Instant) {
	if a := ls.mu.attempts[g.attempt]; a != nil {
		a.applyGrantLocked(g.stamp, g.heartbeat, now)
	}
}
