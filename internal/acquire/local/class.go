// SPDX-License-Identifier: Apache-2.0

package local

import "context"

// waiter is a goroutine that waits. Its fields are guarded by the lock of its Queue.
type waiter struct {
	news       chan news          // room for one: it gets one piece of news at a time
	queued     bool               // it is not served yet
	away       bool               // it was sent to the server, and has no ticket yet, or none any more
	call       context.CancelFunc // ends its wait for its ticket; nil without a ticket
	next, prev *waiter
}

// idle reports whether w does nothing but wait.
func (w *waiter) idle() bool { return !w.away && w.call == nil }

// class has the waiters with one request, in the order of their arrival. Its fields are guarded by the lock of its Queue.
type class struct {
	request    ShareKey
	queue      *Queue // assigned before the first use
	more       *class // the next of the Queue
	head, tail *waiter
	// held counts the holds of the session. asking counts the goroutines that ask the server and are no waiters. seeking
	// counts the waiters that were sent to the server, or have a ticket, until another one took over what they have.
	held, asking, seeking int32
	// scarce says that holds are handed over, and that the server made the last goroutine that asked wait.
	scarce bool
	ticket Ticket    // the newest one
	open   *openHold // the newest shared one; nil if goroutines may enter none
}

// isUnused reports whether c has no waiter and counts nothing.
func (c *class) isUnused() bool { return c.head == nil && c.held+c.asking+c.seeking == 0 }

// isFull reports whether the session can get no further hold before one ends.
func (c *class) isFull() bool {
	return c.request.MaxHolds > 0 && c.held+c.asking+c.seeking >= int32(c.request.MaxHolds)
}

// waitsFirst reports whether waiters wait for what the session has, or asks for, before another one asks the server. A hold
// that is not handed over is not waited for, but the goroutine that asks is.
func (c *class) waitsFirst() bool {
	asks := c.asking+c.seeking > 0
	if c.request.Policy != HandOver {
		return asks || c.isFull()
	}
	return c.isFull() || c.scarce && (asks || c.held > 0)
}

func (c *class) append(w *waiter) {
	w.queued = true
	w.prev, w.next = c.tail, nil
	if c.tail != nil {
		c.tail.next = w
	} else {
		c.head = w
	}
	c.tail = w
	c.queue.mu.waiters++
}

func (c *class) remove(w *waiter) {
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		c.head = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		c.tail = w.prev
	}
	w.next, w.prev, w.queued = nil, nil, false
	c.queue.mu.waiters--
}

// first returns the waiter that is served next, or nil: the first one that is not away. self counts though it is away.
func (c *class) first(self *waiter) *waiter {
	for w := c.head; w != nil; w = w.next {
		if !w.away || w == self {
			return w
		}
	}
	return nil
}

// serve gives w what it waited for, and returns what to call when the lock is released, or nil. An idle waiter may wait
// at another Queue as soon as it has the news, so w is read before.
func (c *class) serve(w *waiter, n news) context.CancelFunc {
	c.remove(w)
	call := w.call
	w.news <- n
	return call
}

// send sends an idle waiter to the server, with a ticket or for one, and reports whether there is one.
func (c *class) send(t Ticket) bool {
	w := c.sent()
	if w == nil {
		return false
	}
	w.away = true
	c.seeking++
	w.news <- news{seeks: true, ticket: t}
	return true
}

// sent returns the waiter that is sent to the server next, or nil: the last idle one, or the first one if each of them
// asks for itself.
func (c *class) sent() *waiter {
	if c.request.Policy == Own {
		return c.head // it is idle: a waiter is sent only if no other one asks, and a ticket stays with its waiter
	}
	for w := c.tail; w != nil; w = w.prev {
		if w.idle() {
			return w
		}
	}
	return nil
}

// wanted sends a waiter to the server if none is there and the session can have a further hold: at once, or after a while
// if waiters wait for what the session has. It is called after whatever may have changed that.
func (c *class) wanted() {
	switch {
	case c.head == nil || c.asking+c.seeking > 0 || c.isFull():
	case c.waitsFirst():
		c.queue.sendLater()
	default:
		c.send(nil)
	}
}

// give ends the task of a seeking waiter. Its ticket, if it has one, goes to another waiter if that may wait at the
// server; give reports whether it did.
func (c *class) give(t Ticket) bool {
	c.seeking--
	if t != nil && c.seeking == 0 && !c.isFull() && c.send(t) {
		return true
	}
	c.wanted()
	return false
}
