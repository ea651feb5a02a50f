// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
)

// Acquire waits until the caller has a hold, and returns a lease of it. Goroutines with the same key wait for each other.
func (t *Table) Acquire(ctx context.Context, q *Queue, key ShareKey, source TicketSource) (hold.Lease, error) {
	if lease, ok := q.joinFresh(key); ok {
		return lease, nil
	}
	a := acquisition{queue: q, key: key, source: source, waiter: t.getWaiter()}
	defer t.putWaiter(a.waiter) // it is in no waitlist on return, and has read its event
	if joined, err := a.joinWaitlist(); err != nil {
		return hold.Lease{}, err
	} else if joined {
		return a.wait(ctx)
	}
	return a.requestDirectly(ctx)
}

// AcquireAlone is Acquire for a goroutine whose ticket, and the hold that it gets, are its own: it asks the server at once, and only
// counts as a waiter. If several goroutines of the session can have what it asks for, it counts when it has to wait.
func (q *Queue) AcquireAlone(ctx context.Context, several bool, source TicketSource) (hold.Lease, error) { //nolint:revive // a fact about the lock, not a switch
	var counts int32 = 1
	if several {
		counts = 0
	}
	if err := q.count(counts, source); err != nil {
		return hold.Lease{}, err
	}
	defer func() { q.uncount(counts) }()
	t, err := source.NewTicket()
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
// own. Call uncount after it.
func (q *Queue) count(n int32, source TicketSource) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	err := source.Admit(q.waitersAheadLocked(n == 0))
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

// acquisition is one call of Acquire.
type acquisition struct {
	queue    *Queue
	key      ShareKey
	source   TicketSource
	waitlist *waitlist // assigned by joinWaitlist; reused for no other key while the acquisition uses it
	atOnce   bool      // the server granted the hold at once, and no goroutine had to wait for it
	waiter   *waiter
}

// joinWaitlist makes the caller a waiter if it may not ask the server, and reports whether it did, or returns why it may do neither.
func (a *acquisition) joinWaitlist() (joined bool, err error) {
	q := a.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	a.waitlist = q.findOrAddLocked(a.key)
	// Under the lock: Refuse finds the caller among the waiters, or the caller finds the reason here.
	if err = a.source.Admit(q.waitersAheadLocked(a.key.Concurrent)); err != nil {
		return false, err
	}
	if a.waitlist.head == nil && !a.waitlist.mustWait() {
		a.waitlist.directRequests++
		return false, nil
	}
	a.waitlist.append(a.waiter)
	a.waitlist.sendIfNeeded()
	return true, nil
}

// requestDirectly asks the server as a goroutine that is no waiter. If the server does not grant at once, the caller becomes one.
func (a *acquisition) requestDirectly(ctx context.Context) (hold.Lease, error) {
	t, err := a.newTicket()
	if err != nil {
		a.endDirectRequest()
		return hold.Lease{}, err
	}
	granted, err := t.Join(ctx)
	a.atOnce = granted
	if granted || err != nil {
		lease, err := t.BeginHold(ctx, err)
		a.endDirectRequest()
		return lease, err
	}
	if lease, waits, err := a.waitWithTicket(ctx, t); !waits {
		return lease, err
	}
	return a.wait(ctx)
}

// endDirectRequest ends the request of a caller that is no waiter.
func (a *acquisition) endDirectRequest() {
	a.queue.mu.Lock()
	defer a.queue.mu.Unlock()
	a.waitlist.directRequests--
	a.waitlist.scarce = a.waitlist.scarce && !a.atOnce
	a.waitlist.sendIfNeeded()
}

// wait waits until the caller has a lease, and asks the server whenever it is sent there.
func (a *acquisition) wait(ctx context.Context) (hold.Lease, error) {
	for {
		var e event
		select {
		case e = <-a.waiter.events:
		case <-ctx.Done():
			if err, left := a.leave(ctx); left {
				return hold.Lease{}, err
			}
			e = <-a.waiter.events // an event of the same instant is the caller's own
		}
		if !e.request {
			return e.lease, e.err
		}
		if lease, waits, err := a.request(ctx, e.ticket); !waits {
			return lease, err
		}
	}
}

// leave ends the wait of the caller and returns its error, unless an event was sent to it.
func (a *acquisition) leave(ctx context.Context) (err error, left bool) {
	a.queue.mu.Lock()
	defer a.queue.mu.Unlock()
	if !a.waiter.queued || a.waiter.requesting {
		return nil, false
	}
	a.waitlist.remove(a.waiter)
	switch {
	case a.waitlist.holds > 0 && a.key.Policy != Shared: // only the server knows what keeps a shared one out
		return errs.WhileHeldHere(errs.Ended(ctx)), true
	case a.waitlist.newestTicket != nil:
		return a.waitlist.newestTicket.Ended(ctx), true
	}
	return errs.Ended(ctx), true // another goroutine asks, and has no reply yet
}

// request gets a hold from the server for the first waiter, with ticket t or one of the caller's own. It returns the
// caller's lease, why it has no lease, or that the caller waits further.
func (a *acquisition) request(ctx context.Context, t Ticket) (lease hold.Lease, waits bool, err error) {
	if t == nil {
		if t, err = a.newTicket(); err != nil {
			a.quit()
			return hold.Lease{}, false, err
		}
	}
	granted, err := t.Join(ctx)
	a.atOnce = granted
	if granted || err != nil {
		return a.beginHold(ctx, t, err)
	}
	return a.waitWithTicket(ctx, t)
}

// waitWithTicket waits with a ticket that is in the server's queue.
func (a *acquisition) waitWithTicket(ctx context.Context, t Ticket) (lease hold.Lease, waits bool, err error) {
	called, cancel := context.WithCancel(ctx)
	defer cancel()
	a.registerTicket(t, cancel)
	err = t.Wait(called)
	if a.endTicketWait() {
		if !a.passTicket(t) {
			t.Leave()
		}
		return (<-a.waiter.events).lease, false, nil
	}
	return a.beginHold(ctx, t, err)
}

// registerTicket records that the caller waits with ticket t, until a hold is handed to it: then cancel ends the wait. A caller that
// asked the server itself becomes a waiter by that, in one step: it is the first to get what is handed over from then on.
func (a *acquisition) registerTicket(t Ticket, cancel context.CancelFunc) {
	a.queue.mu.Lock()
	defer a.queue.mu.Unlock()
	list, w := a.waitlist, a.waiter
	if !w.queued {
		list.directRequests--
		list.waiterRequests++
		list.append(w)
	}
	w.requesting, w.cancelWait, list.newestTicket, list.scarce = false, cancel, t, list.key.Policy == HandOver
}

// endTicketWait records that the caller waits with its ticket no more, and reports whether a hold was handed to it.
func (a *acquisition) endTicketWait() bool {
	a.queue.mu.Lock()
	defer a.queue.mu.Unlock()
	a.waiter.requesting, a.waiter.cancelWait = true, nil
	return !a.waiter.queued
}

// passTicket leaves the ticket of a caller that was served otherwise to another waiter, and reports whether one took it.
func (a *acquisition) passTicket(t Ticket) bool {
	a.queue.mu.Lock()
	defer a.queue.mu.Unlock()
	return a.waitlist.endRequest(t)
}

// quit ends the wait of the caller, which has no ticket.
func (a *acquisition) quit() {
	a.queue.mu.Lock()
	defer a.queue.mu.Unlock()
	a.waitlist.remove(a.waiter)
	a.waitlist.endRequest(nil)
}

// beginHold ends the caller's task: what ticket t was granted goes to the first waiter, which may be the caller. If the
// caller's context has ended, another waiter waits further with its ticket.
func (a *acquisition) beginHold(ctx context.Context, t Ticket, err error) (lease hold.Lease, waits bool, _ error) {
	if err != nil && ctx.Err() != nil && a.handOverTicket(t) {
		return hold.Lease{}, false, err
	}
	lease, err = t.BeginHold(ctx, err)
	if err != nil {
		a.quit()
		return hold.Lease{}, false, err
	}
	own, call := a.deliver(lease)
	if call != nil {
		call()
	}
	if own {
		return lease, false, nil
	}
	return hold.Lease{}, true, nil
}

// handOverTicket ends the wait of the caller and leaves its ticket to another waiter, if there is an idle one that can use it.
func (a *acquisition) handOverTicket(t Ticket) bool {
	if a.key.Policy == Own {
		return false
	}
	a.queue.mu.Lock()
	defer a.queue.mu.Unlock()
	list := a.waitlist
	list.waiterRequests--
	list.remove(a.waiter)
	// The session may have all its holds, while one that was requeued is not counted out yet: the ticket is kept all the same.
	if list.waiterRequests == 0 && list.sendToServer(t) {
		return true
	}
	list.waiterRequests++ // the caller ends the request
	list.append(a.waiter)
	return false
}

// deliver gives a lease to the first waiter, and the caller's task to another one. It reports whether the caller is the
// first, and returns what to call if it is not.
func (a *acquisition) deliver(lease hold.Lease) (own bool, cancel context.CancelFunc) {
	a.queue.mu.Lock()
	defer a.queue.mu.Unlock()
	list, w := a.waitlist, a.waiter
	list.scarce = list.scarce && !a.atOnce
	first := w
	if list.key.Policy == HandOver {
		first = list.nextToServe(w)
	}
	if own = first == w; own {
		list.remove(w)
	} else {
		cancel = list.serve(first, event{lease: lease})
		w.requesting = false
	}
	list.endRequest(nil)
	return own, cancel
}
