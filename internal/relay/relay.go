// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"context"
	"sync"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/hold"
)

// Place is a place in line at the server. Whoever has it waits, one at a time, and may leave it to another.
type Place interface {
	// Enter returns when it stands in line, or was granted what it wants, or why it is neither.
	Enter(ctx context.Context) (granted bool, err error)
	// Wait waits until it was granted what it wants, or answers why it is not.
	Wait(ctx context.Context) error
	// Begin ends the place, though it be granted something in the instant in which waiting failed with err, and
	// answers a lease of that, or why there is none.
	Begin(ctx context.Context, err error) (hold.Lease, error)
	// Leave ends the place, and gives back off the caller's path what it was granted in the same instant.
	Leave()
	// Ended answers the error of one whose ctx has ended while another waited for both.
	Ended(ctx context.Context) error
}

// Line is where places are.
type Line interface {
	// Ready answers why nobody is to wait, or nil. It is called under the relay's lock.
	Ready() error
	// Place answers a place, or why there is none. Nothing is sent.
	Place() (Place, error)
}

// Giver is a hold that nobody uses any more.
type Giver interface {
	// Give makes a lease for the next, or refuses. It is called under the relay's lock.
	Give(now clock.Instant) (hold.Lease, bool)
}

// Relay is where those wait, in one process, who want the same lock. It is made by a Table.
type Relay struct {
	table *Table
	key   string
	users int // guarded by the lock of the table

	mu struct {
		sync.Mutex
		queue queue // the first of its queues; most need no other
	}
}

// turn is what one who waits is told: the lease that it has, or why it gets none, or that it is to seek, in the place of
// another, or where that is nil in one of its own.
type turn struct {
	lease hold.Lease
	err   error
	seeks bool
	place Place
}

// Take answers a lease of what is wanted, and waits for it. like is the same for all to whom what one of them has can be
// passed on.
func (r *Relay) Take(ctx context.Context, like string, line Line) (hold.Lease, error) {
	s := sitting{relay: r, like: like, line: line, waiter: r.table.waiter()}
	defer r.table.waited(s.waiter) // it is in no queue on return, and was told nothing that it has not read
	if joined, err := s.join(); err != nil {
		return hold.Lease{}, err
	} else if joined {
		return s.wait(ctx)
	}
	p, err := line.Place()
	if err != nil {
		return hold.Lease{}, err
	}
	granted, err := p.Enter(ctx)
	if granted || err != nil {
		return p.Begin(ctx, err)
	}
	if lease, goesOn, err := s.seekAt(ctx, p); !goesOn {
		return lease, err
	}
	return s.wait(ctx)
}

// Verdict is what has become of a hold that nobody uses any more.
type Verdict int

const (
	// Passed is one that somebody has who waited.
	Passed Verdict = iota
	// Refused is one that somebody waits for, and that refuses to be passed on.
	Refused
	// Unwanted is one that nobody waits for here.
	Unwanted
)

// Pass passes a hold on to the first who waits for the like.
func (r *Relay) Pass(now clock.Instant, like string, from Giver) Verdict {
	verdict, call := r.pass(now, like, from)
	if call != nil {
		call()
	}
	return verdict
}

func (r *Relay) pass(now clock.Instant, like string, from Giver) (Verdict, context.CancelFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	q := r.findLocked(like)
	if q == nil {
		return Unwanted, nil
	}
	w := q.first(nil)
	if w == nil {
		return Unwanted, nil
	}
	lease, ok := from.Give(now)
	if !ok {
		return Refused, nil
	}
	return Passed, q.serve(w, turn{lease: lease})
}

// refuse tells all who do nothing but wait that they get nothing, and why.
func (r *Relay) refuse(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for q := &r.mu.queue; q != nil; q = q.more {
		for w := q.head; w != nil; {
			next := w.next
			if w.idle() {
				q.serve(w, turn{err: err})
			}
			w = next
		}
	}
}

// findLocked answers the queue of those who want the like, nil where nobody waits for that.
func (r *Relay) findLocked(like string) *queue {
	for q := &r.mu.queue; q != nil; q = q.more {
		if q.like == like && q.head != nil {
			return q
		}
	}
	return nil
}

// openLocked is findLocked for one who is to be in the queue. One that is unused serves for another sort of wish: there are as
// many as sorts that were waited for at one time, however many sorts there are.
func (r *Relay) openLocked(like string) *queue {
	if q := r.findLocked(like); q != nil {
		return q
	}
	q := &r.mu.queue
	for !q.isUnused() {
		if q.more == nil {
			q.more = &queue{}
		}
		q = q.more
	}
	q.like, q.place = like, nil
	return q
}

// busy reports whether anybody waits.
func (r *Relay) busy() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for q := &r.mu.queue; q != nil; q = q.more {
		if q.head != nil {
			return true
		}
	}
	return false
}

// sitting is one call of Take.
type sitting struct {
	relay  *Relay
	like   string
	line   Line
	queue  *queue // from the instant in which the caller is in it
	waiter *waiter
}

// join queues the caller where others wait, and reports whether it did, or answers why nobody is to wait.
func (s *sitting) join() (joined bool, err error) {
	r := s.relay
	r.mu.Lock()
	defer r.mu.Unlock()
	q := r.findLocked(s.like)
	if q == nil {
		return false, nil
	}
	// Under the lock: who refuses all who wait finds the caller among them, or the caller finds it said here.
	if err = s.line.Ready(); err != nil {
		return false, err
	}
	s.queue = q
	q.append(s.waiter)
	return true, nil
}

// wait waits until the caller is told that it has a lease, and does its part as the seeker whenever it is told to.
func (s *sitting) wait(ctx context.Context) (hold.Lease, error) {
	for {
		var t turn
		select {
		case t = <-s.waiter.told:
		case <-ctx.Done():
			if err, left := s.leave(ctx); left {
				return hold.Lease{}, err
			}
			t = <-s.waiter.told // in the same instant: what it was told is its own
		}
		if !t.seeks {
			return t.lease, t.err
		}
		if lease, goesOn, err := s.seek(ctx, t.place); !goesOn {
			return lease, err
		}
	}
}

// leave takes the caller out of the queue, and answers the error of its wait, unless it was told something already.
func (s *sitting) leave(ctx context.Context) (err error, left bool) {
	s.relay.mu.Lock()
	defer s.relay.mu.Unlock()
	if !s.waiter.queued || s.waiter.away {
		return nil, false
	}
	s.queue.remove(s.waiter)
	return s.queue.place.Ended(ctx), true
}

// seek gets something at the server for the first who waits, in place p or one of the caller's own. It answers the
// caller's lease, why there is none, or that it goes on waiting.
func (s *sitting) seek(ctx context.Context, p Place) (lease hold.Lease, goesOn bool, err error) {
	if p == nil {
		if p, err = s.line.Place(); err != nil {
			s.quit()
			return hold.Lease{}, false, err
		}
	}
	granted, err := p.Enter(ctx)
	if granted || err != nil {
		return s.begin(ctx, p, err)
	}
	return s.seekAt(ctx, p)
}

// seekAt is seek in a place that stands in line.
func (s *sitting) seekAt(ctx context.Context, p Place) (lease hold.Lease, goesOn bool, err error) {
	called, call := context.WithCancel(ctx)
	defer call()
	s.stands(p, call)
	err = p.Wait(called)
	if s.wasServed() {
		s.vacate(p)
		return (<-s.waiter.told).lease, false, nil
	}
	return s.begin(ctx, p, err)
}

// stands says that the caller waits in place p, until something is passed to it: then call ends that. Who asked the
// server itself is queued by that, in one step: what is passed on from then on it is the first to have.
func (s *sitting) stands(p Place, call context.CancelFunc) {
	s.relay.mu.Lock()
	defer s.relay.mu.Unlock()
	if !s.waiter.queued {
		s.queue = s.relay.openLocked(s.like)
		s.queue.seekers++
		s.queue.append(s.waiter)
	}
	s.waiter.away, s.waiter.call, s.queue.place = false, call, p
}

// wasServed says that the caller waits in its place no more, and reports whether something was passed to it.
func (s *sitting) wasServed() bool {
	s.relay.mu.Lock()
	defer s.relay.mu.Unlock()
	s.waiter.away, s.waiter.call = true, nil
	return !s.waiter.queued
}

// vacate leaves the place of one who was served otherwise to another who waits, and the line where there is none.
func (s *sitting) vacate(p Place) {
	if !s.leavePart(p) {
		p.Leave()
	}
}

func (s *sitting) leavePart(p Place) bool {
	s.relay.mu.Lock()
	defer s.relay.mu.Unlock()
	return s.queue.leavePart(p)
}

// quit takes the caller out of the queue, and leaves its part, without a place, to another.
func (s *sitting) quit() {
	s.relay.mu.Lock()
	defer s.relay.mu.Unlock()
	s.queue.remove(s.waiter)
	s.queue.leavePart(nil)
}

// begin ends the caller's part: what was granted in place p goes to the first who waits, which may be the caller. Where
// its context has ended another waits on in its place.
func (s *sitting) begin(ctx context.Context, p Place, err error) (lease hold.Lease, goesOn bool, _ error) {
	if err != nil && ctx.Err() != nil && s.handOver(p) {
		return hold.Lease{}, false, err
	}
	lease, err = p.Begin(ctx, err)
	if err != nil {
		s.quit()
		return hold.Lease{}, false, err
	}
	own, call := s.deliver(lease)
	if call != nil {
		call()
	}
	if own {
		return lease, false, nil
	}
	return hold.Lease{}, true, nil
}

// handOver takes the caller out of the queue and leaves its part and its place to another, if anybody is idle.
func (s *sitting) handOver(p Place) bool {
	s.relay.mu.Lock()
	defer s.relay.mu.Unlock()
	q := s.queue
	q.remove(s.waiter)
	if q.leavePart(p) {
		return true
	}
	q.seekers++ // it is the caller's to end
	q.append(s.waiter)
	return false
}

// deliver gives a lease to the first who waits, and the caller's part to another. It reports whether the caller is the
// first, and answers what is to be called where it is not.
func (s *sitting) deliver(lease hold.Lease) (own bool, call context.CancelFunc) {
	s.relay.mu.Lock()
	defer s.relay.mu.Unlock()
	q, w := s.queue, s.waiter
	first := q.first(w)
	if own = first == w; own {
		q.remove(w)
	} else {
		call = q.serve(first, turn{lease: lease})
		w.away = false
	}
	q.leavePart(nil)
	return own, call
}
