// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
)

// Take returns a lease of what is requested, and waits for it.
func (t *Table) Acquire(ctx context.Context, q *Queue, r ShareKey, s TicketSource) (hold.Lease, error) {
	if lease, ok := q.enter(r); ok {
		return lease, nil
	}
	v := visit{queue: q, request: r, source: s, waiter: t.waiter()}
	defer t.waited(v.waiter) // it is in no class on return, and has read its news
	if joined, err := v.join(); err != nil {
		return hold.Lease{}, err
	} else if joined {
		return v.wait(ctx)
	}
	return v.ask(ctx)
}

// TakeAlone is Take for a goroutine whose ticket, and the hold that it gets, are its own: it asks the server at once, and only
// counts as a waiter. If several goroutines of the session can have what it asks for, it counts when it has to wait.
func (q *Queue) AcquireAlone(ctx context.Context, several bool, s TicketSource) (hold.Lease, error) { //nolint:revive // a fact about the lock, not a switch
	var counts int32 = 1
	if several {
		counts = 0
	}
	if err := q.count(counts, s); err != nil {
		return hold.Lease{}, err
	}
	defer func() { q.uncount(counts) }()
	t, err := s.NewTicket()
	if err != nil {
		return hold.Lease{}, err
	}
	granted, err := t.Join(ctx)
	if !granted && err == nil {
		q.uncount(counts - 1)
		counts = 1
		err = t.Wait(ctx)
	}
	return t.BeginHold(ctx, err)
}

// count counts n goroutines as waiters, 1 or 0, or returns why they may not ask the server. They wait with tickets of their
// own, and uncount is to follow.
func (q *Queue) count(n int32, s TicketSource) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	err := s.Admit(q.aheadLocked(n == 0))
	if err == nil {
		q.mu.waiters += n
	}
	return err
}

// uncount counts n goroutines out that count counted in.
func (q *Queue) uncount(n int32) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.mu.waiters -= n
}

// visit is one call of Take.
type visit struct {
	queue   *Queue
	request ShareKey
	source  TicketSource
	class   *class // assigned by join; it serves for no other request while the visit uses it
	atOnce  bool   // the server granted what was asked for, and no goroutine had to wait for it
	waiter  *waiter
}

// join makes the caller a waiter if it may not ask the server, and reports whether it did, or returns why it may do neither.
func (v *visit) join() (joined bool, err error) {
	q := v.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	v.class = q.openLocked(v.request)
	// Under the lock: Refuse finds the caller among the waiters, or the caller finds the reason here.
	if err = v.source.Admit(q.aheadLocked(v.request.Concurrent)); err != nil {
		return false, err
	}
	if v.class.head == nil && !v.class.waitsFirst() {
		v.class.asking++
		return false, nil
	}
	v.class.append(v.waiter)
	v.class.wanted()
	return true, nil
}

// ask asks the server as a goroutine that is no waiter. If the server does not grant at once, the caller becomes one.
func (v *visit) ask(ctx context.Context) (hold.Lease, error) {
	t, err := v.ticket()
	if err != nil {
		v.asked()
		return hold.Lease{}, err
	}
	granted, err := t.Join(ctx)
	v.atOnce = granted
	if granted || err != nil {
		lease, err := t.BeginHold(ctx, err)
		v.asked()
		return lease, err
	}
	if lease, waits, err := v.stand(ctx, t); !waits {
		return lease, err
	}
	return v.wait(ctx)
}

// asked ends the asking of the caller.
func (v *visit) asked() {
	v.queue.mu.Lock()
	defer v.queue.mu.Unlock()
	v.class.asking--
	v.class.scarce = v.class.scarce && !v.atOnce
	v.class.wanted()
}

// wait waits until the caller has a lease, and asks the server whenever it is sent there.
func (v *visit) wait(ctx context.Context) (hold.Lease, error) {
	for {
		var n news
		select {
		case n = <-v.waiter.news:
		case <-ctx.Done():
			if err, left := v.leave(ctx); left {
				return hold.Lease{}, err
			}
			n = <-v.waiter.news // in the same instant: what it was given is its own
		}
		if !n.seeks {
			return n.lease, n.err
		}
		if lease, waits, err := v.seek(ctx, n.ticket); !waits {
			return lease, err
		}
	}
}

// leave ends the wait of the caller and returns its error, unless it has news already.
func (v *visit) leave(ctx context.Context) (err error, left bool) {
	v.queue.mu.Lock()
	defer v.queue.mu.Unlock()
	if !v.waiter.queued || v.waiter.away {
		return nil, false
	}
	v.class.remove(v.waiter)
	switch {
	case v.class.held > 0 && v.request.Policy != Shared: // what keeps a shared one out is the server's to say
		return errs.WhileHeldHere(errs.Ended(ctx)), true
	case v.class.ticket != nil:
		return v.class.ticket.Ended(ctx), true
	}
	return errs.Ended(ctx), true // another goroutine asks, and has no reply yet
}

// seek gets something at the server for the first waiter, with ticket t or one of the caller's own. It returns the
// caller's lease, why it has no lease, or that the caller waits further.
func (v *visit) seek(ctx context.Context, t Ticket) (lease hold.Lease, waits bool, err error) {
	if t == nil {
		if t, err = v.ticket(); err != nil {
			v.quit()
			return hold.Lease{}, false, err
		}
	}
	granted, err := t.Join(ctx)
	v.atOnce = granted
	if granted || err != nil {
		return v.begin(ctx, t, err)
	}
	return v.stand(ctx, t)
}

// stand waits with a ticket that is in the server's queue.
func (v *visit) stand(ctx context.Context, t Ticket) (lease hold.Lease, waits bool, err error) {
	called, call := context.WithCancel(ctx)
	defer call()
	v.stands(t, call)
	err = t.Wait(called)
	if v.wasServed() {
		if !v.give(t) {
			t.Leave()
		}
		return (<-v.waiter.news).lease, false, nil
	}
	return v.begin(ctx, t, err)
}

// stands says that the caller waits with ticket t, until something is handed to it: then call ends that. A caller that
// asked the server itself becomes a waiter by that, in one step: it is the first to get what is handed over from then on.
func (v *visit) stands(t Ticket, call context.CancelFunc) {
	v.queue.mu.Lock()
	defer v.queue.mu.Unlock()
	c, w := v.class, v.waiter
	if !w.queued {
		c.asking--
		c.seeking++
		c.append(w)
	}
	w.away, w.call, c.ticket, c.scarce = false, call, t, c.request.Policy == HandOver
}

// wasServed says that the caller waits with its ticket no more, and reports whether something was handed to it.
func (v *visit) wasServed() bool {
	v.queue.mu.Lock()
	defer v.queue.mu.Unlock()
	v.waiter.away, v.waiter.call = true, nil
	return !v.waiter.queued
}

// give leaves the ticket of a caller that was served otherwise to another waiter, and reports whether one took it.
func (v *visit) give(t Ticket) bool {
	v.queue.mu.Lock()
	defer v.queue.mu.Unlock()
	return v.class.give(t)
}

// quit ends the wait of the caller, which has no ticket.
func (v *visit) quit() {
	v.queue.mu.Lock()
	defer v.queue.mu.Unlock()
	v.class.remove(v.waiter)
	v.class.give(nil)
}

// begin ends the caller's task: what ticket t was granted goes to the first waiter, which may be the caller. If the
// caller's context has ended, another waiter waits further with its ticket.
func (v *visit) begin(ctx context.Context, t Ticket, err error) (lease hold.Lease, waits bool, _ error) {
	if err != nil && ctx.Err() != nil && v.handOver(t) {
		return hold.Lease{}, false, err
	}
	lease, err = t.BeginHold(ctx, err)
	if err != nil {
		v.quit()
		return hold.Lease{}, false, err
	}
	own, call := v.deliver(lease)
	if call != nil {
		call()
	}
	if own {
		return lease, false, nil
	}
	return hold.Lease{}, true, nil
}

// handOver ends the wait of the caller and leaves its ticket to another waiter, if there is an idle one that can use it.
func (v *visit) handOver(t Ticket) bool {
	if v.request.Policy == Own {
		return false
	}
	v.queue.mu.Lock()
	defer v.queue.mu.Unlock()
	c := v.class
	c.seeking--
	c.remove(v.waiter)
	// The session may have all its holds, while one that was requeued is not counted out yet: the ticket is kept all the same.
	if c.seeking == 0 && c.send(t) {
		return true
	}
	c.seeking++ // it is the caller's to end
	c.append(v.waiter)
	return false
}

// deliver gives a lease to the first waiter, and the caller's task to another one. It reports whether the caller is the
// first, and returns what to call if it is not.
func (v *visit) deliver(lease hold.Lease) (own bool, call context.CancelFunc) {
	v.queue.mu.Lock()
	defer v.queue.mu.Unlock()
	c, w := v.class, v.waiter
	c.scarce = c.scarce && !v.atOnce
	first := w
	if c.request.Policy == HandOver {
		first = c.first(w)
	}
	if own = first == w; own {
		c.remove(w)
	} else {
		call = c.serve(first, news{lease: lease})
		w.away = false
	}
	c.give(nil)
	return own, call
}
