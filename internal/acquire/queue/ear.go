// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"iter"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/dispatch"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// ear is one channel on which grants are heard, for all queues that are notified on it.
type ear struct {
	lines   *Registry
	channel string
	users   int // lines; guarded by the lock of its Lines

	dispatch.Subscription // guarded by itself
}

// earLocked returns the listener of a channel and counts a queue in.
func (ls *Registry) earLocked(channel string) *ear {
	e := ls.mu.ears[channel]
	if e == nil {
		e = &ear{lines: ls, channel: channel}
		ls.mu.ears[channel] = e
	}
	e.users++
	return e
}

// leaveLocked counts a queue out. It reports whether that was the last one, and e is to be closed.
func (e *ear) leaveLocked() bool {
	e.users--
	if e.users > 0 {
		return false
	}
	delete(e.lines.mu.ears, e.channel)
	return true
}

// Subscribed implements dispatch.Hearer: messages before now may be lost, so each queue is polled in which an attempt
// may have been granted the lock. If no enter was sent yet, none was.
func (e *ear) OnSubscribed() {
	ls := e.lines
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, q := range ls.mu.queues {
		if q.ear == e && q.asked > 0 {
			q.pollLocked()
		}
	}
}

// Lost implements dispatch.Hearer: it brings the next polls forward, to those of a session that
// hears no messages.
func (e *ear) OnUnsubscribed() {
	ls := e.lines
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, q := range ls.mu.queues {
		if q.ear == e {
			q.hastenLocked()
		}
	}
}

// Heard implements dispatch.Hearer: grants.
func (e *ear) OnMessage(message string) { e.lines.granted(message) }

// grant is one grant of a message: the attempt, the stamp of its token, and the number of the heartbeat that
// paid for it.
type grant struct {
	attempt string
	token   wire.Stamp
	paid    string
}

const attemptSize, stampSize, numberSize = 19, 16, 20

// grants returns the grants of a message in order; none if text is no such message.
func grants(text string) iter.Seq[grant] {
	const size = attemptSize + stampSize + numberSize
	return func(yield func(grant) bool) {
		if len(text)%size != 0 {
			return
		}
		for ; len(text) >= size; text = text[size:] {
			t := grant{
				attempt: text[:attemptSize],
				token:   wire.ParseStamp(text[attemptSize : attemptSize+stampSize]),
				paid:    text[attemptSize+stampSize : size],
			}
			if t.token != 0 && !yield(t) {
				return
			}
		}
	}
}

// granted handles the message that attempts of this session have the lock.
func (ls *Registry) granted(text string) {
	if text == "" {
		return
	}
	now := clock.Now()
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for g := range grants(text) {
		ls.grantedLocked(g, now)
	}
}

// grantedLocked handles one grant. An unknown attempt belongs to a copy of this process, restored from a
// snapshot, or was released while the message was on its way. A hold without an attempt expires.
func (ls *Registry) grantedLocked(g grant, now clock.Instant) {
	if a := ls.mu.attempts[g.attempt]; a != nil {
		a.grantedLocked(g.token, g.paid, now)
	}
}
