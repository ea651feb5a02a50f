// SPDX-License-Identifier: Apache-2.0

package waitroom

import (
	"context"
	"sync"
	"time"

	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/timers"
)

// SharePolicy is what becomes of a hold that a goroutine of the session got.
type SharePolicy uint8

const (
	// HandOver says that holds go to the next goroutine when they are released.
	HandOver SharePolicy = iota
	// Own says that holds go to no other goroutine, and neither do tickets: each goroutine asks for itself, one at a time.
	// The first waiter asks next.
	Own
	// Shared says that holds are joined by other goroutines: by all waiters and, for a while, by newcomers. One goroutine at
	// a time asks for all.
	Shared
)

// ShareKey has the terms on which a goroutine acquires. Goroutines with equal keys share a ticket. The zero ShareKey is for
// goroutines that have tickets of their own from the beginning; see Acquisition. It is small, because each lock in
// use has one.
type ShareKey struct {
	Policy SharePolicy
	// Concurrent says that several goroutines of the session can have the lock at the same time.
	Concurrent bool
	// Wanted says that the hold learns that another session waits.
	Wanted bool
	// MaxHolds is how many holds a session can have at once; 0 is any number.
	MaxHolds uint8
	// Replicas, Lease and FirstLease are the terms of the hold: how many replicas must have it before the call returns, how
	// long each renewal lengthens it, and how long it lasts before the first renewal.
	Replicas          uint8
	Lease, FirstLease time.Duration
	// Permits and Capacity are those of a semaphore's request; 0 if they do not matter.
	Permits, Capacity int32
}

// Ticket is an entry in the server's queue. One goroutine at a time waits with it, and may leave it to another.
type Ticket interface {
	// Join returns when the ticket is in the queue or was granted, or why it is neither.
	Join(ctx context.Context) (granted bool, err error)
	// Wait waits until the ticket is granted, or returns why it is not.
	Wait(ctx context.Context) error
	// Leave ends the ticket, and releases a hold that was granted in the same instant off the caller's path.
	Leave()
	// Ended returns the error of a waiter whose ctx has ended while another one waited for both.
	Ended(ctx context.Context) error
}

// TicketSource makes tickets. It sends nothing, except for MayShare.
type TicketSource interface {
	// Admit returns why no goroutine may ask or wait while so many others of the session wait, or nil. It is called under
	// the lock of the Room.
	Admit(waiters int) error
	// NewTicket returns a new ticket, or why it made no ticket. memory is that of the Acquisition, or nil.
	NewTicket(memory any) (Ticket, error)
	// MayShare asks the server whether goroutines may continue to join the hold of lease, if holds are shared.
	MayShare(ctx context.Context, lease hold.Lease) bool
}

// UnlockedHold is a hold whose last lease was unlocked.
type UnlockedHold interface {
	// NextLease makes a lease for the next goroutine, or refuses. It is called under the lock of the Room.
	NextLease(now timers.Instant) (hold.Lease, bool)
}

// sendDelay is how long waiters wait for a scarce hold of their session before one of them asks the server.
const sendDelay = 20 * time.Millisecond

// Room is where the goroutines of one session wait for one lock. A Table makes it.
type Room struct {
	stripe   *stripe // the stripe of the Table that has the room
	users    int32   // counts the goroutines between Use and Done; guarded by the lock of the stripe
	unshared int32   // counts the waiters of waitlists whose holds are not shared; guarded by mu, and here because there is room

	mu struct {
		sync.Mutex
		// waiters counts the waiters of all waitlists, and the goroutines that wait with tickets of their own. directRequests is the
		// sum of those of all waitlists.
		waiters, directRequests int32
		rare                    *rareState // nil until it is needed
		first                   waitlist   // the first waitlist; most locks need no other
	}
}

// rareState is what few Rooms need. Its fields are guarded by the lock of the Room.
type rareState struct {
	sendTimer     timers.Timer // see sendLater
	sendScheduled bool         // sendTimer is scheduled
	idle          idleHold
	buckets       []*waitlist // the waitlists but the first, by the hashes of their keys; nil while there are few
	spread        int         // the number of waitlists in buckets
}

func (r *Room) rareLocked() *rareState {
	if r.mu.rare == nil {
		r.mu.rare = &rareState{idle: idleHold{room: r}}
		r.mu.rare.sendTimer.Init(r)
		r.mu.rare.idle.timer.Init(&r.mu.rare.idle)
	}
	return r.mu.rare
}

// sendLater lets a waiter ask the server in a while. It is called under the lock of r.
func (r *Room) sendLater() {
	if rare := r.rareLocked(); !rare.sendScheduled {
		rare.sendScheduled = true
		r.stripe.table.timers.Schedule(&rare.sendTimer, sendDelay)
	}
}

// Fire implements timers.Firer: the holds of the session did not reach all waiters in a while.
func (r *Room) Fire() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.rare.sendScheduled = false
	for list := range r.listsLocked() {
		if list.directRequests+list.waiterRequests == 0 && !list.isFull() {
			list.sendToServer(nil)
		}
	}
}

// event ends the idle wait of a waiter: it has a lease, or gets none because of err, or is to request a hold from the server,
// with the ticket of another waiter, or, if ticket is nil, with a new one.
type event struct {
	lease   hold.Lease
	err     error
	request bool
	ticket  Ticket
}

// HandOverResult is what became of a hold that no goroutine uses any more.
type HandOverResult int

const (
	// HandedOver says that a waiter has it.
	HandedOver HandOverResult = iota
	// Refused says that a waiter wants it, and that the hold refuses to be handed over.
	Refused
	// NoWaiter says that no goroutine waits for it.
	NoWaiter
	// Kept says that no goroutine waits for it, and that the Room keeps it.
	Kept
)

// HandOver hands a hold over to the first waiter with the same key.
func (r *Room) HandOver(now timers.Instant, key ShareKey, from UnlockedHold) HandOverResult {
	result, cancel := r.handOver(now, key, from)
	if cancel != nil {
		cancel()
	}
	return result
}

func (r *Room) handOver(now timers.Instant, key ShareKey, from UnlockedHold) (HandOverResult, context.CancelFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.handOverLocked(now, key, from)
}

func (r *Room) handOverLocked(now timers.Instant, key ShareKey, from UnlockedHold) (HandOverResult, context.CancelFunc) {
	list := r.findLocked(key)
	if list == nil || key.Policy != HandOver {
		return NoWaiter, nil
	}
	w := list.nextToServe(nil)
	if w == nil {
		return NoWaiter, nil
	}
	if r.isRecalledLocked(key) {
		return Refused, nil
	}
	lease, ok := from.NextLease(now)
	if !ok {
		return Refused, nil
	}
	return HandedOver, list.serve(w, event{lease: lease})
}

// AssignTicket sends a waiter to the server with a ticket that no waiter made, and reports whether there is one.
func (r *Room) AssignTicket(key ShareKey, t Ticket) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.findLocked(key)
	return list != nil && list.sendToServer(t)
}

// Waiters returns how many goroutines wait with this key.
func (r *Room) Waiters(key ShareKey) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if list := r.findLocked(key); list != nil {
		for w := list.first(); w != nil; w = w.next {
			n++
		}
	}
	return n
}

// HoldBegan counts a hold of the session.
func (r *Room) HoldBegan(key ShareKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.findOrAddLocked(key).holds++
}

// HoldEnded counts a hold out. It is over, or no longer waited for.
func (r *Room) HoldEnded(key ShareKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.findOrAddLocked(key)
	list.holds--
	if list.holds == 0 && list.state != nil {
		list.state.shared = sharedHold{}
	}
	list.sendIfNeeded()
}

// BeginTry reports whether a goroutine that does not wait may ask the server: the session neither waits for the lock nor has
// as many holds as it can have. Goroutines that wait for a shared hold do not count: they keep no other one out. Call EndTry
// after it.
func (r *Room) BeginTry(key ShareKey) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.beginTryLocked(key)
}

func (r *Room) beginTryLocked(key ShareKey) bool {
	if r.unshared > 0 {
		return false
	}
	list := r.findOrAddLocked(key)
	if list.isFull() {
		return false
	}
	r.countDirectLocked(list, 1)
	return true
}

// EndTry ends the try that BeginTry counted. If it got a hold, HoldBegan was called before.
func (r *Room) EndTry(key ShareKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.findOrAddLocked(key)
	r.countDirectLocked(list, -1)
	list.sendIfNeeded()
}

// countDirectLocked counts goroutines that ask the server and are no waiters.
func (r *Room) countDirectLocked(list *waitlist, n int32) {
	list.directRequests += n
	r.mu.directRequests += n
}

// refuse ends the wait of all waiters that do nothing but wait.
func (r *Room) refuse(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for list := range r.listsLocked() {
		for w := list.first(); w != nil; {
			next := w.next
			if w.isIdle() {
				list.serve(w, event{err: err})
			}
			w = next
		}
	}
}

// waitersAheadLocked returns how many goroutines wait. Those that ask the server are among them unless several goroutines of the
// session can have what they ask for: of two that ask for an exclusive lock one will wait.
func (r *Room) waitersAheadLocked(several bool) int { //nolint:revive // a fact about the request, not a switch
	if several {
		return int(r.mu.waiters)
	}
	return int(r.mu.waiters + r.mu.directRequests)
}
