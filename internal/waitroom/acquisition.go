// SPDX-License-Identifier: Apache-2.0

package waitroom

import (
	"context"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
)

// Acquisition is one acquire by one goroutine, which drives it. The goroutine calls Await, begins the hold of the ticket that
// Await returns, and calls Deliver, which reports whether to call Await again. End follows in any case. An Acquisition with the zero
// ShareKey asks the server at once, with a ticket and for a hold of its own, and only counts as a waiter.
type Acquisition struct {
	Room   *Room
	Key    ShareKey
	Source TicketSource
	// Concurrent says, for the zero ShareKey, that several goroutines of the session can have what the caller asks for. Then
	// it counts as a waiter only when it has to wait.
	Concurrent bool
	// Memory is passed to the first NewTicket of Source.
	Memory any
	// AtOnce says, after Await, that the server granted the hold at once, and that no goroutine had to wait for it.
	AtOnce bool

	waiter   *waiter
	waitlist *waitlist // assigned by join; reused for no other key while the call uses it
	waits    bool      // the caller is a waiter
	counted  int32     // how often the caller counts as a waiter with a ticket of its own: 1 or 0
}

// Await returns a ticket whose wait is over, with why it has no hold if that is known. The caller begins the hold, or leaves
// the ticket, and calls Deliver. Without a ticket the call is over: lease or err is its result.
func (a *Acquisition) Await(ctx context.Context) (t Ticket, lease hold.Lease, err error) {
	if !a.waits {
		if lease, err = a.join(ctx); err != nil || lease != (hold.Lease{}) {
			return nil, lease, err
		}
	}
	if a.waits {
		e := a.next(ctx)
		if !e.request {
			return nil, e.lease, e.err
		}
		t = e.ticket
	}
	if t == nil {
		memory := a.Memory
		a.Memory = nil
		if t, err = a.Source.NewTicket(memory); err != nil {
			a.Deliver(hold.Lease{}, err)
			return nil, hold.Lease{}, err
		}
	}
	if lease, joined := a.joinShared(ctx, t); joined {
		return nil, lease, nil
	}
	if a.AtOnce, err = t.Join(ctx); !a.AtOnce && err == nil {
		served := false
		if served, err = a.waitWithTicket(ctx, t); served {
			return nil, (<-a.waiter.events).lease, nil
		}
	}
	if err != nil && ctx.Err() != nil && a.waits && a.handOverTicket(t) {
		return nil, hold.Lease{}, err
	}
	return t, hold.Lease{}, err
}

// Deliver ends the request of the caller, which got a lease for its ticket, or why it got none. It gives the lease to the
// first waiter. If that is another one, it returns true, and the caller waits further: it calls Await.
func (a *Acquisition) Deliver(lease hold.Lease, err error) (waits bool) {
	switch {
	case a.isAlone():
		return false
	case !a.waits:
		a.endDirectRequest()
		return false
	case err != nil:
		a.quit()
		return false
	}
	own, cancel := a.deliver(lease)
	if cancel != nil {
		cancel()
	}
	return !own
}

// End ends the call, which is over.
func (a *Acquisition) End() {
	if a.waiter != nil {
		a.Room.stripe.table.putWaiter(a.waiter) // it is in no waitlist, and has read its event
	}
	if a.counted > 0 {
		a.countAlone(-1)
	}
}

// isAlone reports whether the caller has a ticket of its own.
func (a *Acquisition) isAlone() bool { return a.Key == ShareKey{} }

// join joins a shared hold that was granted a moment ago, or uses an idle hold with the same key, or makes the caller a waiter, or
// counts it among those that ask the server, or returns why it may do neither. It ends an idle hold that the caller cannot use, and
// waits for that as long as ctx lasts: the server would find the lock held by the caller's own session.
func (a *Acquisition) join(ctx context.Context) (hold.Lease, error) {
	step := a.joinAlone
	if !a.isAlone() {
		if lease, ok := a.Room.joinFresh(a.Key); ok {
			return lease, nil
		}
		a.waiter = a.Room.stripe.table.getWaiter()
		step = a.joinWaitlist
	}
	for {
		lease, claimed, mayUse, err := step()
		if claimed == nil {
			return lease, err
		}
		if lease, ok := a.Room.confirm(ctx, claimed, mayUse); ok {
			return lease, nil
		}
	}
}

// joinAlone counts the caller as a waiter with a ticket of its own, or returns why it may not ask the server. If it returns a hold,
// the caller ends that, and begins again.
func (a *Acquisition) joinAlone() (lease hold.Lease, claimed KeptHold, mayUse bool, err error) {
	r := a.Room
	r.mu.Lock()
	defer r.mu.Unlock()
	if err = a.Source.Admit(r.waitersAheadLocked(a.Concurrent)); err != nil {
		return hold.Lease{}, nil, false, err
	}
	if _, claimed, _ = r.useIdleLocked(ShareKey{}); claimed == nil && !a.Concurrent {
		a.counted, r.mu.waiters = 1, r.mu.waiters+1
	}
	return hold.Lease{}, claimed, false, nil
}

// countAlone counts the caller, which has a ticket of its own, as a waiter so often more.
func (a *Acquisition) countAlone(n int32) {
	a.Room.mu.Lock()
	defer a.Room.mu.Unlock()
	a.counted, a.Room.mu.waiters = a.counted+n, a.Room.mu.waiters+n
}

// joinWaitlist uses an idle hold, or makes the caller a waiter if it may not ask the server, or returns why it may do neither. If it
// returns a hold, the caller confirms that if it mayUse it, or else ends it, and begins again.
func (a *Acquisition) joinWaitlist() (lease hold.Lease, claimed KeptHold, mayUse bool, err error) {
	r := a.Room
	r.mu.Lock()
	defer r.mu.Unlock()
	a.waitlist = r.findOrAddLocked(a.Key)
	// Under the lock: Refuse finds the caller among the waiters, or the caller finds the reason here.
	if err = a.Source.Admit(r.waitersAheadLocked(a.Key.Concurrent)); err != nil {
		return hold.Lease{}, nil, false, err
	}
	if lease, claimed, mayUse = r.useIdleLocked(a.Key); claimed != nil || lease != (hold.Lease{}) {
		return lease, claimed, mayUse, nil
	}
	if a.waits = a.waitlist.first() != nil || a.waitlist.mustWait(); !a.waits {
		r.countDirectLocked(a.waitlist, 1)
		return hold.Lease{}, nil, false, nil
	}
	a.waitlist.append(r, a.waiter)
	a.waitlist.sendIfNeeded()
	return hold.Lease{}, nil, false, nil
}

// endDirectRequest ends the request of a caller that is no waiter.
func (a *Acquisition) endDirectRequest() {
	a.Room.mu.Lock()
	defer a.Room.mu.Unlock()
	a.Room.countDirectLocked(a.waitlist, -1)
	a.waitlist.scarce = a.waitlist.scarce && !a.AtOnce
	a.waitlist.sendIfNeeded()
}

// next waits for the event of a waiter. If ctx ends, it returns the error of the caller, unless an event was sent in the same
// instant: that is the caller's own.
func (a *Acquisition) next(ctx context.Context) event {
	select {
	case e := <-a.waiter.events:
		return e
	case <-ctx.Done():
		if err, left := a.leave(ctx); left {
			return event{err: err}
		}
		return <-a.waiter.events
	}
}

// leave ends the wait of the caller and returns its error, unless an event was sent to it.
func (a *Acquisition) leave(ctx context.Context) (err error, left bool) {
	a.Room.mu.Lock()
	defer a.Room.mu.Unlock()
	if !a.waiter.queued || a.waiter.requesting {
		return nil, false
	}
	a.waitlist.remove(a.waiter)
	switch {
	case a.waitlist.holds > 0 && a.Key.Policy != Shared: // only the server knows what keeps a shared one out
		return errs.WhileHeldHere(errs.Ended(ctx)), true
	case a.waitlist.known().newestTicket != nil:
		return a.waitlist.known().newestTicket.Ended(ctx), true
	}
	return errs.Ended(ctx), true // another goroutine asks, and has no reply yet
}

// waitWithTicket waits with a ticket that is in the server's queue. It reports whether another hold was handed to the caller
// meanwhile: then the ticket goes to another waiter, or is left.
func (a *Acquisition) waitWithTicket(ctx context.Context, t Ticket) (served bool, err error) {
	if a.isAlone() {
		a.countAlone(1 - a.counted)
		return false, t.Wait(ctx)
	}
	called, cancel := context.WithCancel(ctx)
	defer cancel()
	a.registerTicket(t, cancel)
	err = t.Wait(called)
	if served = a.endTicketWait(); served && !a.passTicket(t) {
		t.Leave()
	}
	return served, err
}

// registerTicket records that the caller waits with ticket t, until a hold is handed to it: then cancel ends the wait. A caller that
// asked the server itself becomes a waiter by that, in one step: it is the first to get what is handed over from then on.
func (a *Acquisition) registerTicket(t Ticket, cancel context.CancelFunc) {
	a.Room.mu.Lock()
	defer a.Room.mu.Unlock()
	list, w := a.waitlist, a.waiter
	if !w.queued {
		a.waits = true
		a.Room.countDirectLocked(list, -1)
		list.waiterRequests++
		list.append(a.Room, w)
	}
	w.requesting, w.cancelWait, list.learn(a.Room).newestTicket, list.scarce = false, cancel, t, list.key.Policy == HandOver
}

// endTicketWait records that the caller waits with its ticket no more, and reports whether a hold was handed to it.
func (a *Acquisition) endTicketWait() bool {
	a.Room.mu.Lock()
	defer a.Room.mu.Unlock()
	a.waiter.requesting, a.waiter.cancelWait = true, nil
	return !a.waiter.queued
}

// passTicket leaves the ticket of a caller that was served otherwise to another waiter, and reports whether one took it.
func (a *Acquisition) passTicket(t Ticket) bool {
	a.Room.mu.Lock()
	defer a.Room.mu.Unlock()
	return a.waitlist.endRequest(t)
}

// quit ends the wait of the caller, which has no ticket.
func (a *Acquisition) quit() {
	a.Room.mu.Lock()
	defer a.Room.mu.Unlock()
	a.waitlist.remove(a.waiter)
	a.waitlist.endRequest(nil)
}

// handOverTicket ends the wait of the caller and leaves its ticket to another waiter, if there is an idle one that can use it.
func (a *Acquisition) handOverTicket(t Ticket) bool {
	if a.Key.Policy == Own {
		return false
	}
	a.Room.mu.Lock()
	defer a.Room.mu.Unlock()
	list := a.waitlist
	list.waiterRequests--
	list.remove(a.waiter)
	// The session may have all its holds, while one that was requeued is not counted out yet: the ticket is kept all the same.
	if list.waiterRequests == 0 && list.sendToServer(t) {
		return true
	}
	list.waiterRequests++ // the caller ends the request
	list.append(a.Room, a.waiter)
	return false
}

// deliver gives a lease to the first waiter, and the caller's task to another one. It reports whether the caller is the
// first, and returns what to call if it is not.
func (a *Acquisition) deliver(lease hold.Lease) (own bool, cancel context.CancelFunc) {
	a.Room.mu.Lock()
	defer a.Room.mu.Unlock()
	list, w := a.waitlist, a.waiter
	list.scarce = list.scarce && !a.AtOnce
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
