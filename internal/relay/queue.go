// SPDX-License-Identifier: Apache-2.0

package relay

import "context"

// waiter is one of those who wait. Its fields are guarded by the lock of its Relay.
type waiter struct {
	told       chan turn          // room for one: it is told one thing at a time
	queued     bool               // nobody has served it yet
	away       bool               // it was told to seek, and does not stand in line yet, or no more
	call       context.CancelFunc // ends its wait in line; nil where it does not stand there
	next, prev *waiter
}

// idle reports whether w does nothing but wait.
func (w *waiter) idle() bool { return !w.away && w.call == nil }

// queue has those who wait for the like, as they came. Its fields are guarded by the lock of its Relay.
type queue struct {
	like       string // what those in it have in common, or had who were in it last
	more       *queue // the next of the Relay
	head, tail *waiter
	// seekers are those who were told to seek, or stand in line, and what they have was not left to another yet.
	seekers int
	place   Place // the last one in which somebody stood in line
}

// isUnused reports whether nobody is in q, nor has a part in it.
func (q *queue) isUnused() bool { return q.head == nil && q.seekers == 0 }

func (q *queue) append(w *waiter) {
	w.queued = true
	w.prev, w.next = q.tail, nil
	if q.tail != nil {
		q.tail.next = w
	} else {
		q.head = w
	}
	q.tail = w
}

func (q *queue) remove(w *waiter) {
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		q.head = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		q.tail = w.prev
	}
	w.next, w.prev, w.queued = nil, nil, false
}

// first answers who is to be served next, nil where that is nobody: the first who is not away, but for self.
func (q *queue) first(self *waiter) *waiter {
	for w := q.head; w != nil; w = w.next {
		if !w.away || w == self {
			return w
		}
	}
	return nil
}

// serve gives w what it waited for, and answers what is to be called when the lock is let go of, or nil. Who only waits is
// gone once it is told, and may be waiting at another Relay: w is read before.
func (q *queue) serve(w *waiter, t turn) context.CancelFunc {
	q.remove(w)
	call := w.call
	w.told <- t
	return call
}

// leavePart leaves the part of a seeker to the last who is idle, with the place that it has in line, if it has one. It
// reports whether somebody took that. Where others seek, or nobody is idle, the part is over.
func (q *queue) leavePart(p Place) bool {
	q.seekers--
	if q.seekers > 0 {
		return false
	}
	for w := q.tail; w != nil; w = w.prev {
		if w.idle() {
			w.away = true
			q.seekers++
			w.told <- turn{seeks: true, place: p}
			return true
		}
	}
	return false
}
