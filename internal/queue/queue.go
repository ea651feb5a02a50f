// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"iter"
	"time"

	"github.com/signalbox-go/signalbox/internal/notify"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// Queue is the server's queue of one lock, as one session sees it. The mutex of its Queues guards the fields.
//
// A session has one Queue for each lock that it holds. So a Queue is small until an attempt has to wait.
type Queue struct {
	registry   *Queues
	keys       *proto.Set // assigned once
	*waitState            // nil until an attempt had to wait

	users         int32          // the number of callers that use the queue
	attempts      int32          // the number of attempts of the queue that its Queues knows
	pending       int32          // the number of attempts that enter or wait
	pendingSent   int32          // the number of pending attempts for which an enter was sent
	newestRequest *Request       // the request of the newest attempt that waits or waited
	newestHold    *Attempt       // the newest exclusive hold of the session, until its release begins
	listener      *grantListener // receives the grants; nil until an attempt needs it
}

// waitState is what a Queue needs only once an attempt had to wait.
type waitState struct {
	timer         timers.Timer // the next poll; if no caller uses the queue, the time to forget it
	waiting       waitingList
	queued        int            // the number of attempts in state queued
	lastHeartbeat timers.Instant // when the newest heartbeat that had a reply was sent
	pollErr       error          // why the last poll had no reply, or nil
	pollScheduled bool           // a poll is scheduled
	pollDue       time.Duration  // when the scheduled poll is due, on the monotonic clock

	// The fields below are what the last poll saw. While nothing of that changes, heartbeats alone are sent.

	polledStamp wire.Stamp    // the stamp of the hold; 0 if there was no hold, or a poll is due
	holdEnds    time.Duration // the hold lasts at least until then, on the monotonic clock
	polledAt    time.Duration // when the poll was sent, on the monotonic clock
}

// maxKeys and maxArgs are the room on the stack for the keys and the arguments of a call.
const maxKeys, maxArgs = 4, 13

// channel returns the channel of the lock's messages. The channel of the grants is that, followed by the id of the session.
func (q *Queue) channel() string { return q.registry.session.GrantsChannel(*q.keys) }

// initWaitLocked makes sure that the queue has a waitState.
func (q *Queue) initWaitLocked() {
	if q.waitState == nil {
		q.waitState = new(waitState)
		q.timer.Init(q)
	}
}

// recordHeartbeatLocked records that a heartbeat sent at sent had a reply.
func (q *Queue) recordHeartbeatLocked(sent timers.Instant) {
	q.initWaitLocked()
	if q.lastHeartbeat.IsZero() || sent.Mono() > q.lastHeartbeat.Mono() {
		q.lastHeartbeat = sent
	}
}

// clearPollErrLocked forgets the error of the last poll, because the server replied.
func (q *Queue) clearPollErrLocked() {
	if q.waitState != nil {
		q.pollErr = nil
	}
}

// Done counts out, of the queue and of the session, a caller or a hold that Begin counted.
func (q *Queue) Done() {
	q.registry.done(q)
	q.registry.session.End()
}

// pollPauseLocked returns the current pause between polls.
func (q *Queue) pollPauseLocked() time.Duration {
	pause := notify.PollInterval
	if q.listener != nil {
		pause = q.listener.PollInterval()
	}
	return notify.ScaledInterval(pause, q.registry.mu.pendingQueues)
}

// Fire implements timers.Firer: the next poll is due, or no caller has come for a while.
func (q *Queue) Fire() { q.registry.polls.Put(q) }

// pollLocked polls at once.
func (q *Queue) pollLocked() {
	if q.waitState != nil {
		q.polledStamp = 0
	}
	q.registry.polls.Put(q)
}

// LastError implements wire.Poller.
func (q *Queue) LastError() error {
	q.registry.mu.Lock()
	defer q.registry.mu.Unlock()
	if q.waitState == nil {
		return nil
	}
	return q.pollErr
}

// busy reports whether another caller of this session has priority over a new one with that request: it holds, requests or
// releases the lock. If several callers can hold the lock at once, only a caller with a ticket counts.
func (q *Queue) busy(request *Request) bool {
	q.registry.mu.Lock()
	defer q.registry.mu.Unlock()
	if !request.Concurrent {
		return q.attempts > 0
	}
	return q.waitState != nil && q.queued > 0
}

// listen subscribes to the grants of q, unless that was done. An attempt of the caller waits in q.
func (q *Queue) listen() {
	registry := q.registry
	registry.mu.Lock()
	if q.listener == nil {
		q.listener = registry.listenerLocked(q.channel()+registry.session.ID(), q)
	}
	listener := q.listener
	registry.mu.Unlock()
	listener.Open(registry.session.Dispatch, listener.channel, notify.ShardedChannel, listener)
}

// listenIfSubscribed starts to listen for grants if the session is subscribed to the channel already. It is called before
// the first enter, so that no poll has to follow the enter.
func (q *Queue) listenIfSubscribed() {
	s := q.registry.session
	if s.Dispatch.Channels() > 0 && s.Dispatch.IsSubscribed(q.channel()+s.ID()) {
		q.listen()
	}
}

// waitingList has the attempts of a queue that have tickets, in order of arrival. An attempt knows its slot, so that thousands of
// attempts that end at once do not search for themselves among each other. A slot whose attempt has left is empty. The empty
// slots are removed when they are more than half of all: that costs a constant for each attempt that has left.
type waitingList struct {
	slots  []*Attempt // nil in an empty slot
	empty  int        // the number of empty slots
	listed int        // the slot of the last attempt that was listed in turn
	first  []*Attempt // the attempts that the next polls list first, in order; some have left, or were listed meanwhile
}

func (l *waitingList) len() int { return len(l.slots) - l.empty }

// all yields the attempts in order of arrival.
func (l *waitingList) all() iter.Seq[*Attempt] {
	return func(yield func(*Attempt) bool) {
		for _, a := range l.slots {
			if a != nil && !yield(a) {
				return
			}
		}
	}
}

// add appends a, which is in no list.
func (l *waitingList) add(a *Attempt) {
	a.slot = uint32(len(l.slots)) //nolint:gosec // as many attempts do not fit in memory
	l.slots = append(l.slots, a)
}

// remove removes a, which is in the list.
func (l *waitingList) remove(a *Attempt) {
	l.slots[a.slot] = nil
	if l.empty++; 2*l.empty > len(l.slots) {
		l.compact()
	}
}

// compact removes the empty slots.
func (l *waitingList) compact() {
	kept, listed := 0, 0
	for i, a := range l.slots {
		if a != nil {
			l.slots[kept], a.slot = a, uint32(kept) //nolint:gosec // see add
			kept++
		}
		if i == l.listed {
			listed = max(kept-1, 0)
		}
	}
	clear(l.slots[kept:])
	l.slots, l.empty, l.listed = l.slots[:kept], 0, listed
}

// nextInTurn returns the attempt that is listed next in turn, or nil if its slot is empty. The list is not empty.
func (l *waitingList) nextInTurn() *Attempt {
	l.listed = (l.listed + 1) % len(l.slots)
	return l.slots[l.listed]
}

// addFirst lets the next polls list a, which is in the list, before others.
func (l *waitingList) addFirst(a *Attempt) {
	if a.place == listed {
		a.place = listedFirst
		l.first = append(l.first, a)
	}
}

// takeFirst returns an attempt that is listed before others, or nil without one.
func (l *waitingList) takeFirst() *Attempt {
	for len(l.first) > 0 {
		a := l.first[0]
		l.first[0], l.first = nil, l.first[1:]
		if a.place == listedFirst {
			a.place = listed
			return a
		}
	}
	l.first = nil
	return nil
}
