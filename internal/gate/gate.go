// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"sync"
	"time"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/hold"
)

// The budget of passing, as many as an acquire reserves tokens for: after either, a waiter in
// another process gets its chance. At half a microsecond a pass, 1,024 of them are about half
// a millisecond.
const (
	MaxPasses = 1024
	MaxTime   = 20 * time.Millisecond
)

// StandBack is how long the process stays away from a lock after it gave it to a waiter
// elsewhere. Without it the process would take the lock again before the message arrives.
const StandBack = 2 * time.Millisecond

// state is one of the states of the package doc.
type state uint8

const (
	idle state = iota
	contending
	held
	releasing
)

// Turn is what a waiter is given: the lease that was passed to it, or an error, or neither and
// with that the part of the contender.
type Turn struct {
	Lease  hold.Lease
	Passed bool
	Err    error
}

// Tenant is who holds the lock in this process.
type Tenant interface {
	// Evict ends the hold for cause.
	Evict(cause error)
	// Recheck asks the server whether the hold is there still, and does not wait for the answer.
	Recheck()
}

// Terms are what a lock asks of its holds, as far as a waiter who is passed one cares.
type Terms struct {
	Life     time.Duration // that each renewal gives the key; 0 is a hold that is not passed on
	Replicas int           // that had it before it was granted
}

// Waiter is one goroutine in the queue. It can be used again after its turn was taken or
// Leave took it out.
type Waiter struct {
	// Turn has room for one turn, so that giving it never blocks.
	Turn chan Turn
	// Accepts are the terms of the holds that may be passed to it; the zero Terms are none.
	Accepts    Terms
	next, prev *Waiter
	queued     bool
}

// NewWaiter answers a Waiter that is in no queue.
func NewWaiter() *Waiter { return &Waiter{Turn: make(chan Turn, 1)} }

// Gate is the queue of one lock.
type Gate struct {
	mu struct {
		sync.Mutex
		state      state
		elsewhere  bool  // the contender was told that the lock is held
		doubtful   bool  // Recheck was called, and the contender may have the lock since before
		passes     int32 // since the server was asked last
		head, tail *Waiter
		since      time.Duration // monotonic: when that was
		standBack  time.Duration // monotonic: until when; 0 is no time
		tenant     Tenant
	}
	place // in its table
}

// Join makes the caller the contender, or queues w and answers false.
func (g *Gate) Join(w *Waiter) (contender bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.state == idle {
		g.mu.state = contending
		return true
	}
	w.queued = true
	w.prev, w.next = g.mu.tail, nil
	if g.mu.tail != nil {
		g.mu.tail.next = w
	} else {
		g.mu.head = w
	}
	g.mu.tail = w
	return false
}

// Try makes the caller the contender unless the process holds the lock or contends for it.
func (g *Gate) Try() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.state != idle {
		return false
	}
	g.mu.state = contending
	return true
}

// TryNow is Try, and leaves a lock alone that the process is to stay away from for a while.
func (g *Gate) TryNow(now clock.Instant) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.state != idle || g.standBackLocked(now) > 0 {
		return false
	}
	g.mu.state = contending
	return true
}

// StandsBack reports whether the process is to stay away from the lock for a while; StandBack answers for how long.
func (g *Gate) StandsBack(now clock.Instant) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.standBackLocked(now) > 0
}

// Leave takes w out of the queue, and says whether the lock is held, as far as known. left is false
// when w was given its turn already, which then is in w.Turn.
func (g *Gate) Leave(w *Waiter) (left, isHeld bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !w.queued {
		return false, false
	}
	g.removeLocked(w)
	return true, g.mu.state == held || g.mu.elsewhere
}

// Won tells that the contender has the lock, as of now.
func (g *Gate) Won(now clock.Instant, tenant Tenant) {
	g.mu.Lock()
	doubtful := g.mu.doubtful
	g.mu.state, g.mu.tenant, g.mu.elsewhere, g.mu.doubtful = held, tenant, false, false
	g.mu.passes, g.mu.since = 0, now.Mono()
	g.mu.Unlock()
	if doubtful {
		tenant.Recheck()
	}
}

// Heard tells what the contender's last try was answered: that the lock is held, or something
// else.
func (g *Gate) Heard(isHeld bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.elsewhere = isHeld
}

// Quit tells that the contender gives up without the lock.
func (g *Gate) Quit() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.nextContenderLocked()
}

// Lost tells that the process lost the lock.
func (g *Gate) Lost() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.nextContenderLocked()
}

// Verdict is what is to become of a hold that nobody here uses any more.
type Verdict int

const (
	// Passed: the head of the queue has it.
	Passed Verdict = iota
	// Ask: others wait here, but the server must be asked whether somebody waits there.
	Ask
	// Spent: others wait here, but give refused. The budget of passing is not used up.
	Spent
	// GiveBack: nobody waits here, or not for this.
	GiveBack
)

// Pass gives the hold to the head of the queue if its terms are what that one accepts: give makes
// the lease, under the gate's lock, or refuses.
func (g *Gate) Pass(now clock.Instant, terms Terms, give func(now clock.Instant) (hold.Lease, bool)) Verdict {
	g.mu.Lock()
	defer g.mu.Unlock()
	w := g.mu.head
	if w == nil || terms.Life == 0 || w.Accepts != terms {
		return GiveBack
	}
	if g.mu.passes >= MaxPasses || now.Mono()-g.mu.since >= MaxTime {
		return Ask
	}
	lease, ok := give(now)
	if !ok {
		return Spent
	}
	g.mu.passes++
	g.removeLocked(w)
	w.Turn <- Turn{Lease: lease, Passed: true}
	return Passed
}

// Asked tells that the server lets the process go on: the budget begins anew.
func (g *Gate) Asked(now clock.Instant) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.passes, g.mu.since = 0, now.Mono()
}

// Vacate tells that the release is being sent.
func (g *Gate) Vacate() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.state, g.mu.tenant = releasing, nil
}

// Vacated tells that the release was answered, or is not waited for any longer. The lock is
// left alone until standBack; the zero Instant is no time.
func (g *Gate) Vacated(standBack clock.Instant) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.standBack = standBack.Mono()
	g.nextContenderLocked()
}

// StandBack answers how long the contender is to leave the lock alone, once.
func (g *Gate) StandBack(now clock.Instant) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	left := g.standBackLocked(now)
	g.mu.standBack = 0
	return max(left, 0)
}

func (g *Gate) standBackLocked(now clock.Instant) time.Duration {
	if g.mu.standBack == 0 {
		return 0
	}
	return g.mu.standBack - now.Mono()
}

// Refuse sends everybody in the queue away.
func (g *Gate) Refuse(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for w := g.mu.head; w != nil; w = g.mu.head {
		g.removeLocked(w)
		w.Turn <- Turn{Err: err}
	}
}

// Evict ends the hold, if there is one.
func (g *Gate) Evict(cause error) {
	g.mu.Lock()
	tenant := g.mu.tenant
	g.mu.Unlock()
	if tenant != nil {
		tenant.Evict(cause) // which comes back through Lost
	}
}

// Recheck asks whoever holds the lock to look whether that is so. A contender may have been
// granted the lock and not have read it: then it looks when it has.
func (g *Gate) Recheck() {
	g.mu.Lock()
	tenant := g.mu.tenant
	g.mu.doubtful = g.mu.state == contending
	g.mu.Unlock()
	if tenant != nil {
		tenant.Recheck()
	}
}

func (g *Gate) nextContenderLocked() {
	g.mu.tenant, g.mu.doubtful = nil, false
	w := g.mu.head
	if w == nil {
		g.mu.state, g.mu.elsewhere = idle, false
		return
	}
	g.removeLocked(w)
	g.mu.state = contending
	w.Turn <- Turn{}
}

func (g *Gate) removeLocked(w *Waiter) {
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		g.mu.head = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		g.mu.tail = w.prev
	}
	w.next, w.prev, w.queued = nil, nil, false
}
