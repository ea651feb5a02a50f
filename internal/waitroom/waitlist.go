// SPDX-License-Identifier: Apache-2.0

package waitroom

import (
	"context"
	"hash/maphash"
	"iter"
)

// waiter is a goroutine that waits. Its fields are guarded by the lock of its Room.
type waiter struct {
	events     chan event         // has a buffer of one: a waiter gets one event at a time
	queued     bool               // the waiter is in the waitlist: it is not served yet
	requesting bool               // the waiter was sent to the server, and has no ticket yet, or none any more
	cancelWait context.CancelFunc // ends the wait with a ticket; nil without a ticket
	next, prev *waiter
}

// isIdle reports whether w does nothing but wait.
func (w *waiter) isIdle() bool { return !w.requesting && w.cancelWait == nil }

// waitlist has the waiters with one key, in the order of their arrival. Its fields are guarded by the lock of its Room.
type waitlist struct {
	key  *ShareKey // equal keys may be at different addresses; nil before the first use
	next *waitlist // the next waitlist of the Room
	// holds counts the holds of the session. directRequests counts the goroutines that ask the server and are no waiters. waiterRequests
	// counts the waiters that were sent to the server, or have a ticket, until another one took over what they have.
	holds, directRequests, waiterRequests int32
	// scarce says that holds are handed over, and that the server made the last goroutine that asked wait.
	scarce bool
	state  *waitlistState // nil until it is needed
}

// waitlistState is what a waitlist needs if a goroutine has to wait, or a hold is shared: the waiters, and what is known of the server.
type waitlistState struct {
	room         *Room // the room of the list
	head, tail   *waiter
	newestTicket Ticket     // the ticket with which a goroutine began to wait last
	shared       sharedHold // the hold that was shared last; zero if goroutines may join none
}

// known returns the state of the list; the caller does not change it.
func (wl *waitlist) known() waitlistState {
	if wl.state == nil {
		return waitlistState{}
	}
	return *wl.state
}

// learn returns the state of the list, for a caller that changes it.
func (wl *waitlist) learn(r *Room) *waitlistState {
	if wl.state == nil {
		wl.state = &waitlistState{room: r}
	}
	return wl.state
}

// first returns the first waiter, or nil.
func (wl *waitlist) first() *waiter {
	if wl.state == nil {
		return nil
	}
	return wl.state.head
}

// isUnused reports whether list has no waiter and counts nothing.
func (wl *waitlist) isUnused() bool {
	return wl.first() == nil && wl.holds+wl.directRequests+wl.waiterRequests == 0
}

// isFull reports whether the session can get no further hold before one ends.
func (wl *waitlist) isFull() bool {
	return wl.key.MaxHolds > 0 && wl.holds+wl.directRequests+wl.waiterRequests >= int32(wl.key.MaxHolds)
}

// mustWait reports whether waiters wait for what the session has, or asks for, before another one asks the server. A hold
// that is not handed over is not waited for, but the goroutine that asks is.
func (wl *waitlist) mustWait() bool {
	requesting := wl.directRequests+wl.waiterRequests > 0
	if wl.key.Policy != HandOver {
		return requesting || wl.isFull()
	}
	return wl.isFull() || wl.scarce && (requesting || wl.holds > 0)
}

func (wl *waitlist) countWaiter(n int32) {
	wl.state.room.mu.waiters += n
	if wl.key.Policy != Shared {
		wl.state.room.unshared += n
	}
}

func (wl *waitlist) append(r *Room, w *waiter) {
	s := wl.learn(r)
	w.queued = true
	w.prev, w.next = s.tail, nil
	if s.tail != nil {
		s.tail.next = w
	} else {
		s.head = w
	}
	s.tail = w
	wl.countWaiter(1)
}

func (wl *waitlist) remove(w *waiter) {
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		wl.state.head = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		wl.state.tail = w.prev
	}
	w.next, w.prev, w.queued = nil, nil, false
	wl.countWaiter(-1)
}

// nextToServe returns the waiter that is served next, or nil: the first one that is not requesting. self counts though it is requesting.
func (wl *waitlist) nextToServe(self *waiter) *waiter {
	for w := wl.first(); w != nil; w = w.next {
		if !w.requesting || w == self {
			return w
		}
	}
	return nil
}

// serve sends w the event that it waits for, and returns the cancel function to call when the lock is released, or nil. An idle waiter may wait
// at another Room as soon as it has the event, so w is read before.
func (wl *waitlist) serve(w *waiter, e event) context.CancelFunc {
	wl.remove(w)
	cancel := w.cancelWait
	w.events <- e
	return cancel
}

// sendToServer sends an idle waiter to the server, with a ticket or for one, and reports whether there is one.
func (wl *waitlist) sendToServer(t Ticket) bool {
	w := wl.nextToSend()
	if w == nil {
		return false
	}
	w.requesting = true
	wl.waiterRequests++
	w.events <- event{request: true, ticket: t}
	return true
}

// nextToSend returns the waiter that is sent to the server next, or nil: the last idle one, or the first one if each of them
// asks for itself.
func (wl *waitlist) nextToSend() *waiter {
	if wl.key.Policy == Own {
		return wl.first() // it is idle: a waiter is sent only if no other one asks, and a ticket stays with its waiter
	}
	for w := wl.known().tail; w != nil; w = w.prev {
		if w.isIdle() {
			return w
		}
	}
	return nil
}

// sendIfNeeded sends a waiter to the server if no goroutine asks it and the session can have a further hold: at once, or after a while
// if waiters wait for what the session has. It is called after whatever may have changed that.
func (wl *waitlist) sendIfNeeded() {
	switch {
	case wl.first() == nil || wl.directRequests+wl.waiterRequests > 0 || wl.isFull():
	case wl.mustWait():
		wl.state.room.sendLater()
	default:
		wl.sendToServer(nil)
	}
}

// endRequest ends the task of a requesting waiter. Its ticket, if it has one, goes to another waiter if that may wait at the
// server; endRequest reports whether it did.
func (wl *waitlist) endRequest(t Ticket) bool {
	wl.waiterRequests--
	if t != nil && wl.waiterRequests == 0 && !wl.isFull() && wl.sendToServer(t) {
		return true
	}
	wl.sendIfNeeded()
	return false
}

// fewLists is how many waitlists besides the first a Room compares with a key, one by one. If it has more, they are in buckets: thousands
// of goroutines may ask for different numbers of permits, or for different leases.
const fewLists = 8

func (r *Room) listsLocked() iter.Seq[*waitlist] {
	return func(yield func(*waitlist) bool) {
		for list := &r.mu.first; list != nil; list = list.next {
			if !yield(list) {
				return
			}
		}
		if r.mu.rare == nil {
			return
		}
		for _, list := range r.mu.rare.buckets {
			for ; list != nil; list = list.next {
				if !yield(list) {
					return
				}
			}
		}
	}
}

// findLocked returns the waitlist of key, or nil if it is not in use.
func (r *Room) findLocked(key ShareKey) *waitlist {
	if first := &r.mu.first; first.isOf(key) {
		return first
	}
	for list := *r.bucketLocked(key); list != nil; list = list.next {
		if list.isOf(key) {
			return list
		}
	}
	return nil
}

// isOf reports whether wl is the waitlist of key, and in use.
func (wl *waitlist) isOf(key ShareKey) bool { return !wl.isUnused() && *wl.key == key }

// bucketLocked returns where the waitlist of key is, unless it is the first: the beginning of some waitlists, each of which has the next.
func (r *Room) bucketLocked(key ShareKey) **waitlist {
	if rare := r.mu.rare; rare != nil && rare.buckets != nil {
		return &rare.buckets[maphash.Comparable(r.stripe.table.seed, key)%uint64(len(rare.buckets))]
	}
	return &r.mu.first.next
}

// findOrAddLocked is findLocked for a caller that is about to use the waitlist. An unused waitlist is reused for another key of its
// bucket: a Room has about as many waitlists as it had keys in use at one time, however many keys there are in all.
func (r *Room) findOrAddLocked(key ShareKey) *waitlist {
	if list := r.findLocked(key); list != nil {
		return list
	}
	list := &r.mu.first
	if !list.isUnused() {
		list = r.unusedLocked(key)
	}
	list.key, list.scarce, list.state = r.stripe.table.keyOf(key), false, nil
	return list
}

// unusedLocked returns an unused waitlist for key, which is not the first.
func (r *Room) unusedLocked(key ShareKey) *waitlist {
	at, seen := r.bucketLocked(key), 0
	for *at != nil {
		if (*at).isUnused() {
			return *at
		}
		at, seen = &(*at).next, seen+1
	}
	if rare := r.mu.rare; rare != nil && rare.buckets != nil {
		if rare.spread++; rare.spread > len(rare.buckets) {
			r.spreadLocked()
		}
	} else if seen >= fewLists {
		r.spreadLocked()
	}
	at = r.bucketLocked(key)
	list := &waitlist{next: *at}
	*at = list
	return list
}

// spreadLocked makes buckets for twice as many waitlists as are in use, and forgets the others. The caller adds one. So each waitlist is
// moved a few times at most, and a bucket has about one.
func (r *Room) spreadLocked() {
	var used []*waitlist
	for list := range r.listsLocked() {
		if list != &r.mu.first && !list.isUnused() {
			used = append(used, list)
		}
	}
	rare := r.rareLocked()
	r.mu.first.next, rare.buckets, rare.spread = nil, make([]*waitlist, 2*max(len(used), fewLists)), len(used)+1
	for _, list := range used {
		bucket := r.bucketLocked(*list.key)
		list.next, *bucket = *bucket, list
	}
}
