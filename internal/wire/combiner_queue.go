// SPDX-License-Identifier: Apache-2.0

package wire

import "time"

// request is what one caller wants. Its channel has room for the outcome, so that a caller that has
// left blocks no other.
type request struct {
	keys  []string
	args  []string
	done  chan Outcome
	since time.Duration // monotonic: when it came

	queued     bool
	prev, next *request // its neighbours in the queue
}

// queue holds the requests that wait, in the order in which they came. Removing one from the middle
// costs no more than removing the first: thousands of callers may give up together.
type queue struct {
	first, last *request
	size        int
}

func (q *queue) push(r *request) {
	r.queued, r.prev = true, q.last
	if q.last == nil {
		q.first = r
	} else {
		q.last.next = r
	}
	q.last = r
	q.size++
}

// pop removes the first request of a queue that is not empty.
func (q *queue) pop() *request {
	r := q.first
	q.remove(r)
	return r
}

// remove removes r, and reports whether it was there.
func (q *queue) remove(r *request) bool {
	if !r.queued {
		return false
	}
	if r.prev == nil {
		q.first = r.next
	} else {
		r.prev.next = r.next
	}
	if r.next == nil {
		q.last = r.prev
	} else {
		r.next.prev = r.prev
	}
	r.queued, r.prev, r.next = false, nil, nil
	q.size--
	return true
}
