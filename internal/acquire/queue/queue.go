// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"crypto/rand"
	"encoding/base64"
	"slices"
	"strconv"
	"time"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/dispatch"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// LockKeys are those of one lock, and the channel of its grants.
type LockKeys struct {
	// Holder is the key that names the holder.
	Holder string
	// All are the keys of Enter, Look and Leave, in their order. The last one has the lives of the waiting sessions.
	All []string
	// Channel is the channel without the session that it ends with, or, for a lock without a queue, the channel of its messages.
	Channel string
	// Slot is that of the keys, in a cluster.
	Slot uint16
}

// Queue is the queue of one lock, from the view of one session. The lock of its Lines guards its fields. A
// session has one Queue for each lock that it holds, so that it is small until an attempt has to wait.
type Queue struct {
	registry   *Registry
	keys       *LockKeys // assigned once
	*waitState           // nil until an attempt had to wait

	users, attempts      int32          // attempts are those that Lines knows
	pending, pendingSent int32          // how many of them enter or wait, and for how many of these an enter was sent
	spare                bool           // kept though no caller uses it
	newestRequest        *Request       // of the newest of them
	newestHold           *Attempt       // the newest exclusive hold of the session, until its release begins
	listener             *grantListener // hears its grants; nil if no attempt waits, or needs it yet
}

// waitState is the waiting in one queue.
type waitState struct {
	timer         timers.Timer  // the next poll; if no caller uses the queue, the time to forget it
	waiting       []*Attempt    // with tickets, in order of arrival
	lastListed    int           // which of them the next poll lists
	lastHeartbeat clock.Instant // when the newest heartbeat that had a reply was sent
	pollErr       error         // why the last poll had no reply, or nil
	pollScheduled bool          // a poll is scheduled
	pollDue       time.Duration // monotonic: when it is due

	// What the last poll saw. While nothing of it changes, heartbeats alone are sent.
	seenStamp wire.Stamp    // of the hold; 0 if there was none, or a poll is due
	holdEnds  time.Duration // monotonic: that hold lasts at least until then
	polledAt  time.Duration // monotonic: when that poll was sent
}

// initWaitLocked makes sure that the queue has a wait.
func (q *Queue) initWaitLocked() {
	if q.waitState == nil {
		q.waitState = new(waitState)
		q.timer.Init(q)
	}
}

// recordHeartbeatLocked records that a heartbeat sent at sent had a reply.
func (q *Queue) recordHeartbeatLocked(sent clock.Instant) {
	q.initWaitLocked()
	if q.lastHeartbeat.IsZero() || sent.Mono() > q.lastHeartbeat.Mono() {
		q.lastHeartbeat = sent
	}
}

// clearPollErrLocked records that the server replied.
func (q *Queue) clearPollErrLocked() {
	if q.waitState != nil {
		q.pollErr = nil
	}
}

// heartbeat is one heartbeat: the session counts as living for life from its execution, and so for
// life from its first sending. There is one for each number, and none is ever changed.
type heartbeat struct {
	number string
	sent   clock.Instant
	life   time.Duration
}

// expires is when what b paid for can be trusted no more.
func (b heartbeat) expires() clock.Instant { return clock.Deadline(b.sent, b.life) }

// Done counts a user out.
func (q *Queue) Done() { q.registry.Done(q) }

// heartbeatLocked returns a heartbeat for a call that is about to be sent. Calls that follow each other within a 64th of a life
// share one, whatever queue they are for: the grant that it pays for is counted from the first of them, which is never too
// late.
func (r *Registry) heartbeatLocked(now clock.Instant) heartbeat {
	life, heartbeats := r.lifeLocked(), r.mu.heartbeats
	if n := len(heartbeats); n > 0 && heartbeats[n-1].life == life && now.Mono()-heartbeats[n-1].sent.Mono() < life/64 {
		return heartbeats[n-1]
	}
	kept := 0
	for kept < len(heartbeats) && heartbeats[kept].expires().Reached(now) {
		kept++
	}
	b := heartbeat{number: r.nextNumberLocked(), sent: now, life: life}
	r.mu.heartbeats = append(append(heartbeats[:0], heartbeats[kept:]...), b)
	return b
}

// findHeartbeatLocked returns the heartbeat with that number, if it is known and not over.
func (r *Registry) findHeartbeatLocked(number string, now clock.Instant) (heartbeat, bool) {
	for _, b := range r.mu.heartbeats {
		if b.number == number {
			return b, !b.expires().Reached(now)
		}
	}
	return heartbeat{}, false
}

// hasRecentHeartbeatLocked reports whether a heartbeat had a reply so recently that another one is not worth it.
func (q *Queue) hasRecentHeartbeatLocked(now clock.Instant) bool {
	return q.waitState != nil && !q.lastHeartbeat.IsZero() && !q.lastHeartbeat.Add(q.registry.lifeLocked()/8).Reached(now)
}

// nextNumberLocked returns the number of a heartbeat that is about to be sent. Numbers rise over all queues
// while the session lives. 48 random bits follow the digits: two copies of one process, restored from one
// snapshot, must not mistake each other's heartbeats for their own.
func (r *Registry) nextNumberLocked() string {
	r.mu.lastNumber++
	var random [6]byte
	_, _ = rand.Read(random[:]) // crypto/rand.Read never fails: it ends the process instead
	const digits = numberSize - 8
	number := make([]byte, digits, numberSize)
	for i := range number {
		number[i] = '0'
	}
	count := strconv.FormatInt(r.mu.lastNumber, 10)
	copy(number[digits-len(count):], count)
	return string(base64.RawURLEncoding.AppendEncode(number, random[:]))
}

// pollsPerLife is how many pauses between polls a waiter's life lasts: two polls may fail. The scripts reject a life of
// more than lives times dispatch.PollCeiling.
const pollsPerLife = 3

// pollPauseLocked returns the current pause between polls.
func (q *Queue) pollPauseLocked() time.Duration {
	pause := dispatch.PollInterval
	if q.listener != nil {
		pause = q.listener.PollInterval()
	}
	return dispatch.ScaledInterval(pause, q.registry.mu.pendingQueues)
}

// lifeLocked returns for how long a heartbeat makes the session count as living. It grows in steps, since a heartbeat
// serves calls for one life alone.
func (r *Registry) lifeLocked() time.Duration {
	const step = dispatch.PollInterval / 4
	every := (time.Duration(r.mu.pendingQueues)*dispatch.PollCost + step - 1).Truncate(step)
	return pollsPerLife * min(max(dispatch.PollInterval, every), dispatch.MaxPollInterval)
}

// Fire implements timers.Event: the next poll is due, or no caller has come for a while.
func (q *Queue) Fire() { q.registry.polls.Put(q) }

// pollLocked polls at once.
func (q *Queue) pollLocked() {
	if q.waitState != nil {
		q.seenStamp = 0
	}
	q.registry.polls.Put(q)
}

// LastError implements wire.Poll.
func (q *Queue) LastError() error {
	q.registry.mu.Lock()
	defer q.registry.mu.Unlock()
	if q.waitState == nil {
		return nil
	}
	return q.pollErr
}

// busy reports whether a caller of this session is before a new one with that request: it holds, requests or
// releases the lock. If several can hold the lock at once, only a caller that waits in the queue counts, not
// one that is about to enter.
func (q *Queue) busy(request *Request) bool {
	q.registry.mu.Lock()
	defer q.registry.mu.Unlock()
	if !request.Concurrent {
		return q.attempts > 0
	}
	return q.waitState != nil && slices.ContainsFunc(q.waiting, func(a *Attempt) bool { return a.state == queued })
}

// listen makes sure that grants are heard, or will be. The caller waits in q.
func (q *Queue) listen() {
	registry := q.registry
	registry.mu.Lock()
	if q.listener == nil {
		q.listener = registry.listenerLocked(q.keys.Channel + registry.session.ID())
	}
	listener := q.listener
	registry.mu.Unlock()
	listener.Open(registry.session.Dispatch, listener.channel, dispatch.ShardedChannel, listener)
}

// listenIfSubscribed starts to listen for grants if that costs nothing: before the first enter, which then need not
// be followed by a poll.
func (q *Queue) listenIfSubscribed() {
	s := q.registry.session
	if s.Dispatch.Channels() > 0 && s.Dispatch.IsSubscribed(q.keys.Channel+s.ID()) {
		q.listen()
	}
}
