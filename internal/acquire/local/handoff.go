// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"sync"
	"time"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/timers"
)

// Way is what becomes of a hold that a goroutine of the session got.
type SharePolicy uint8

const (
	// Handed holds go to the next goroutine when they are released.
	HandOver SharePolicy = iota
	// Own holds go to no other goroutine, and neither do their tickets: each goroutine asks for itself, one at a time. The
	// first waiter asks next.
	Own
	// Shared holds are entered by other goroutines, those that wait and, for a while, those that come. One goroutine at a
	// time asks for all. See Sharer.
	Shared
)

// Request is what a goroutine wants. Goroutines with equal requests wait for each other. The zero Request is of goroutines
// that have tickets of their own from the beginning; see Queue.TakeAlone. It is small, because each lock in use has one.
type ShareKey struct {
	Policy SharePolicy
	// Beside says that several goroutines of the session can have the lock at the same time.
	Concurrent bool
	// Most is how many holds of it a session can have at once; 0 is any number.
	MaxHolds uint8
	// Replicas, Lease and First are the terms of the hold: how many replicas had it before it was granted, how long each
	// renewal lengthens it, and how long it lasts before the first one.
	Replicas          uint8
	Lease, FirstLease time.Duration
	// Permits and Capacity are those of a semaphore; 0 if they do not matter.
	Permits, Capacity int32
}

// Ticket is a place in the server's queue. One goroutine at a time waits with it, and may leave it to another.
type Ticket interface {
	// Enter returns when the ticket is in the queue or was granted, or why it is neither.
	Join(ctx context.Context) (granted bool, err error)
	// Wait waits until the ticket is granted, or returns why it is not.
	Wait(ctx context.Context) error
	// Begin ends the ticket and returns a lease of what it was granted. If it was granted nothing, it returns why. Waiting may
	// have failed with err in the same instant.
	BeginHold(ctx context.Context, err error) (hold.Lease, error)
	// Leave ends the ticket, and releases off the caller's path what it was granted in the same instant.
	Leave()
	// Ended returns the error of a waiter whose ctx has ended while another one waited for both.
	Ended(ctx context.Context) error
}

// Source makes tickets.
type TicketSource interface {
	// Ready returns why no goroutine may ask or wait while so many others of the session wait, or nil. It is called under
	// the lock of the Queue.
	Admit(waiters int) error
	// Ticket returns a new ticket, or why it made no ticket. Nothing is sent.
	NewTicket() (Ticket, error)
}

// Giver is a hold that no goroutine uses any more.
type IdleHold interface {
	// Give makes a lease for the next goroutine, or refuses. It is called under the lock of the Queue.
	NextLease(now clock.Instant) (hold.Lease, bool)
}

// sendsAfter is how long waiters wait for what their session has of a scarce thing before one of them asks the server.
const fetchDelay = 20 * time.Millisecond

// Queue is where the goroutines of one session wait for one lock. A Table makes it.
type Queue struct {
	lockKey string
	timers  *timers.Timers
	users   int // guarded by the lock of its shard

	mu struct {
		sync.Mutex
		fetchScheduled bool // send is scheduled
		// waiters counts those of all classes, and the goroutines that wait in TakeAlone.
		waiters    int32
		fetchTimer *timers.Timer // see sendLater; nil until it is needed
		first      waitlist      // the first one; most locks need no other
	}
}

// sendLater lets a waiter ask the server in a while. It is called under the lock of q.
func (q *Queue) fetchLater() {
	if q.mu.fetchTimer == nil {
		q.mu.fetchTimer = new(timers.Timer)
		q.mu.fetchTimer.Init(q)
	}
	if !q.mu.fetchScheduled {
		q.mu.fetchScheduled = true
		q.timers.Schedule(q.mu.fetchTimer, fetchDelay)
	}
}

// Fire implements timers.Event: what the session has did not reach all waiters in a while.
func (q *Queue) Fire() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.mu.fetchScheduled = false
	for list := &q.mu.first; list != nil; list = list.next {
		if list.requesters+list.fetchers == 0 && !list.isFull() {
			list.startFetch(nil)
		}
	}
}

// news is what a waiter is notified of: the lease that it has, or why it gets none, or that it is sent to the server, with
// the ticket of another one, or, if that is nil, for one of its own.
type event struct {
	lease  hold.Lease
	err    error
	fetch  bool
	ticket Ticket
}

// Verdict is what became of a hold that no goroutine uses any more.
type HandOverResult int

const (
	// Passed: a waiter has it.
	HandedOver HandOverResult = iota
	// Refused: a waiter wants it, and the hold refuses to be handed over.
	Refused
	// Unwanted: no goroutine waits for it.
	NoWaiter
)

// Pass hands a hold over to the first waiter with the same request.
func (q *Queue) HandOver(now clock.Instant, key ShareKey, from IdleHold) HandOverResult {
	verdict, cancel := q.handOver(now, key, from)
	if cancel != nil {
		cancel()
	}
	return verdict
}

func (q *Queue) handOver(now clock.Instant, key ShareKey, from IdleHold) (HandOverResult, context.CancelFunc) {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := q.findLocked(key)
	if list == nil || key.Policy != HandOver {
		return NoWaiter, nil
	}
	w := list.nextToServe(nil)
	if w == nil {
		return NoWaiter, nil
	}
	lease, ok := from.NextLease(now)
	if !ok {
		return Refused, nil
	}
	return HandedOver, list.serve(w, event{lease: lease})
}

// Send sends a waiter to the server with a ticket that no waiter made, and reports whether there is one.
func (q *Queue) AssignTicket(key ShareKey, t Ticket) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := q.findLocked(key)
	return list != nil && list.startFetch(t)
}

// Waiters returns how many goroutines wait with this request.
func (q *Queue) Waiters(key ShareKey) (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if list := q.findLocked(key); list != nil {
		for w := list.head; w != nil; w = w.next {
			n++
		}
	}
	return n
}

// Began counts a hold of the session.
func (q *Queue) HoldBegan(key ShareKey) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.findOrAddLocked(key).holds++
}

// Ended counts a hold out. It is over, or no longer waited for.
func (q *Queue) HoldEnded(key ShareKey) {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := q.findOrAddLocked(key)
	list.holds--
	if list.holds == 0 {
		list.shared = nil
	}
	list.fetchIfNeeded()
}

// Try reports whether a goroutine that does not wait may ask the server: the session neither waits for the lock nor has
// as many holds as it can have. Goroutines that wait for a shared hold count for nothing: they keep no other one out. Tried
// is to follow.
func (q *Queue) BeginTry(key ShareKey) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for list := &q.mu.first; list != nil; list = list.next {
		if list.head != nil && list.key.Policy != Shared {
			return false
		}
	}
	list := q.findOrAddLocked(key)
	if list.isFull() {
		return false
	}
	list.requesters++
	return true
}

// Tried ends what Try began. If that got a hold, Began was called before.
func (q *Queue) EndTry(key ShareKey) {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := q.findOrAddLocked(key)
	list.requesters--
	list.fetchIfNeeded()
}

// refuse ends the wait of all waiters that do nothing but wait.
func (q *Queue) refuse(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for list := &q.mu.first; list != nil; list = list.next {
		for w := list.head; w != nil; {
			next := w.next
			if w.isIdle() {
				list.serve(w, event{err: err})
			}
			w = next
		}
	}
}

// aheadLocked returns how many goroutines wait. Those that ask the server are among them unless several goroutines of the
// session can have what they ask for: of two that ask for an exclusive lock one will wait.
func (q *Queue) waitersAheadLocked(several bool) int {
	n := q.mu.waiters
	for list := &q.mu.first; list != nil && !several; list = list.next {
		n += list.requesters
	}
	return int(n)
}

// findLocked returns the class of a request, or nil if it is not in use.
func (q *Queue) findLocked(key ShareKey) *waitlist {
	for list := &q.mu.first; list != nil; list = list.next {
		if list.key == key && !list.isUnused() {
			return list
		}
	}
	return nil
}

// openLocked is findLocked for a caller that is about to use the class. A class that is unused serves for another
// request: there are as many as requests at one time, however many requests there are.
func (q *Queue) findOrAddLocked(key ShareKey) *waitlist {
	if list := q.findLocked(key); list != nil {
		return list
	}
	list := &q.mu.first
	for !list.isUnused() {
		if list.next == nil {
			list.next = &waitlist{queue: q}
		}
		list = list.next
	}
	list.key, list.newestTicket, list.scarce, list.shared = key, nil, false, nil
	return list
}
