// SPDX-License-Identifier: Apache-2.0

package acquire

import (
	"context"
	"fmt"
	"iter"
	"strconv"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/queue"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/waitroom"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// Mode is what a reentrant and a fair lock differ in. At the server they are one kind.
type Mode string

const (
	// Turns hands a hold over inside the process, for one turn: reentrant.
	Turns Mode = "r"
	// Kept is Turns for a hold that may be kept while no goroutine uses it: reentrant with signalbox.WithKeepWarm.
	Kept Mode = "k"
	// Ordered has a ticket for each goroutine, and hands nothing over: fair.
	Ordered Mode = "f"
	// WantedTurns and WantedOrdered are Turns and Ordered for a holder that learns that another session waits: signalbox.WithWanted.
	WantedTurns, WantedOrdered Mode = "R", "F"
)

// Exclusive is a lock that one holder has at a time. It is written once. Packages reentrant and fair are made of it.
type Exclusive struct{ Acquirer }

// exclusiveRegistry holds the state of one session for the exclusive locks of one layout.
type exclusiveRegistry struct {
	Manager

	scope hold.Scope
	// turns and ordered are shared by locks without options of their own.
	turns, ordered Shared
}

// Make makes e the lock name of the session. Nothing is sent. If the name or an option is not valid, Err says so.
func (e *Exclusive) Make(s *signalbox.Session, name string, mode Mode, options []signalbox.LockOption) {
	kind := &proto.Reentrant
	if mode == Ordered {
		kind = &proto.Fair
	}
	e.Base.make(s, name, kind, options)
	if e.Err != nil {
		return
	}
	r := session.RegistryOf(e.Session, e.table().RegistryName, func() *exclusiveRegistry { return e.newRegistry(kind) })
	switch {
	case len(options) > 0:
		shared := e.share(r, mode, e.Resolved)
		e.Shared = &shared
	case mode == Ordered:
		e.Shared = &r.ordered
	default:
		e.Shared = &r.turns
	}
}

// tableIn returns the locks of a kind in l, or nil. What is made of a lock, as an election, is made of a fair one.
func tableIn(l *proto.Layout, kind *proto.Kind) *proto.ExclusiveTable {
	if kind == &proto.Reentrant {
		return l.Lock
	}
	return l.Fair
}

// table returns what e is on the server.
func (e *Exclusive) table() *proto.ExclusiveTable { return tableIn(e.Layout, e.Kind) }

// newRegistry makes the registry of the session for the locks of the layout of e.
func (e *Exclusive) newRegistry(kind *proto.Kind) *exclusiveRegistry {
	table, name := e.table(), kind.Name
	if table.ModeInHold {
		name = "lock" // both kinds, in the log of the session
	}
	r := &exclusiveRegistry{Manager: NewManager(e.Session, e.Layout, &table.Table, nil), scope: hold.Scope{Kind: name}}
	r.AcquireMany, r.ReleaseMany = table.AcquireMany, table.ReleaseMany
	r.turns = e.share(r, Turns, e.Session.DefaultsOf(&proto.Reentrant))
	r.ordered = e.share(r, Ordered, e.Session.DefaultsOf(&proto.Fair))
	return r
}

// share returns what locks with those settings share.
func (e *Exclusive) share(r *exclusiveRegistry, mode Mode, s *session.Resolved) Shared {
	return r.NewShared(&r.scope, e.newRequest(mode, s), s.Terms.Lease)
}

// newRequest returns the request of a lock with those settings. Holds whose time counts from the grant are not
// handed over. Without messages no recall arrives, so no hold is kept.
func (e *Exclusive) newRequest(mode Mode, s *session.Resolved) *queue.Request {
	table := e.table()
	w := &queue.Request{Life: s.Terms.First(), FloorTTL: s.Floor}
	w.Wanted = s.Wanted && !s.Terms.Fixed && table.Queue != nil && table.Queue.Waiters != nil
	if table.ModeInHold {
		w.Mode = string(mode)
	}
	if w.Wanted && !e.Session.Settings.Polling { // else no message arrives
		w.Mode = string(WantedTurns)
		if mode == Ordered {
			w.Mode = string(WantedOrdered)
		}
	}
	unkept := w.Mode
	if mode == Turns && !s.Terms.Fixed && s.Terms.MaxHold == 0 {
		w.ShareKey = waitroom.ShareKey{MaxHolds: 1, Lease: s.Terms.Lease, FirstLease: s.Terms.First(), Replicas: s.Replicas.Small(), Wanted: w.Wanted}
		if table.Queue != nil && table.Queue.Keep != nil && s.KeepWarm > 0 && !e.Session.Settings.Polling {
			w.Mode, w.KeepFor = string(Kept), s.KeepWarm
		}
	}
	w.ShareKey = ShareKeyFor(&table.Table, w.ShareKey, waitroom.ShareKey{Policy: waitroom.Own, MaxHolds: 1})
	if w.KeepFor > 0 {
		joint := *w
		joint.Mode, joint.KeepFor = unkept, 0 // its first waiter need not recall it
		w.Joint = &joint
	}
	return w
}

// Acquire waits until the lock is the caller's, or enters it again by the lease that ctx carries.
func (e *Exclusive) Acquire(ctx context.Context) (hold.Lease, error) {
	lease, carried, err := e.enter(ctx)
	if carried || err != nil {
		return lease, err
	}
	call := e.BeginCall(ctx)
	lease, err = e.Acquirer.Acquire(ctx)
	return lease.Observe(call, err)
}

// TryAcquire acquires the lock if it is free and has no living waiter, or enters it again.
func (e *Exclusive) TryAcquire(ctx context.Context) (hold.Lease, error) {
	lease, carried, err := e.enter(ctx)
	if carried || err != nil {
		return lease, err
	}
	call := e.BeginCall(ctx)
	lease, err = e.Acquirer.TryAcquire(ctx)
	return lease.Observe(call, err)
}

func (e *Exclusive) enter(ctx context.Context) (lease hold.Lease, carried bool, err error) {
	if err = e.CheckArgs(); err != nil {
		return hold.Lease{}, false, err
	}
	return e.Enter(ctx, e.Scope)
}

// ForceUnlock ends the hold that the server names, of whatever process, and hands the lock over.
func (e *Exclusive) ForceUnlock(ctx context.Context) error {
	if err := e.CheckArgs(); err != nil {
		return e.Explain("force unlock", err)
	}
	table := e.table()
	return e.Base.ForceUnlock(ctx, table.CompatibleKinds, func(hold, channel string) wire.Call {
		keys := e.Manager.KeysOf(e.Names)
		force := proto.Force{ID: hold, Verb: e.Session.PublishCommandsIn(e.Layout), Channel: keys.Channel, Forced: channel, KeepMS: e.Floor}
		return wire.Call{Script: table.Force, Keys: keys.All, Args: force.AppendTo(nil)}
	})
}

// Place returns the position of the lock in the order of all locks, for package multilock. Locks with the
// same name and scope are one lock.
func (e *Exclusive) Place() signalbox.Place {
	if e.CheckArgs() != nil {
		return signalbox.Place{}
	}
	var together session.ManyAcquirer
	if e.table().AcquireMany != nil {
		together = (*manyAcquirer)(e)
	}
	return e.Base.Place(e.Scope.Kind, session.ExclusiveAccess, together)
}

const (
	// waitersPage is how many waiters one script returns.
	waitersPage = 100
	// ticketSize is the length of a ticket that ends with a mode.
	ticketSize = "42"
)

// Waiters returns the waiters of all processes, the first one first. An error ends the sequence.
func (e *Exclusive) Waiters(ctx context.Context) iter.Seq2[signalbox.Waiter, error] {
	return func(yield func(signalbox.Waiter, error) bool) {
		for position, after := 1, "0"; ; {
			tickets, err := e.waitersAfter(ctx, after)
			if err != nil {
				yield(signalbox.Waiter{}, e.Explain("waiters", err))
				return
			}
			for i := range tickets {
				if tickets[i].Ticket == "" {
					continue // a ticket of another kind, which the next hand-off drops
				}
				if !yield(e.waiterAt(&tickets[i], position), nil) {
					return
				}
				position++
			}
			if len(tickets) < waitersPage {
				return
			}
			after = tickets[len(tickets)-1].Arrival
		}
	}
}

func (e *Exclusive) waitersAfter(ctx context.Context, after string) ([]proto.ListedTicket, error) {
	if err := e.Connect(ctx); err != nil {
		return nil, err
	}
	if e.table().Waiters == nil {
		return nil, fmt.Errorf("%w: a lock in the layout of %s has no queue at the server", errs.ErrBadOption, e.Layout.Name)
	}
	waiters := proto.Waiters{After: after, Count: strconv.Itoa(waitersPage), Size: ticketSize}
	keys := e.Manager.KeysOf(e.Names).All[1:] // without the holder
	reply, err := e.Session.Runner.Run(ctx, wire.Call{Script: e.table().Waiters, Keys: keys, Args: waiters.AppendTo(nil)})
	return proto.ReadWaiters(&reply), CutShort(ctx, err)
}

func (e *Exclusive) waiterAt(t *proto.ListedTicket, position int) signalbox.Waiter {
	w := signalbox.Waiter{Position: position, Session: e.Layout.Session(t.Ticket), Alive: t.IsAlive, Label: t.Label}
	if w.Session == e.Session.ID() {
		w.Goroutines = max(e.goroutines(t.Ticket), 1)
	}
	if since := t.Since(); since != 0 {
		w.Since = since.Time()
	}
	return w
}

// goroutines returns how many goroutines wait by a ticket of this session, or 0 if that is not known.
func (e *Exclusive) goroutines(ticket string) int {
	manager := e.Manager
	if manager.Queues == nil {
		return 0
	}
	key := manager.Queues.ShareKeyOf(ticket)
	if key == (waitroom.ShareKey{}) {
		return 0
	}
	queues := manager.LocalQueues
	q := queues.Use(e.Names.Holder)
	defer q.Done(e.Names.Holder)
	return q.Waiters(key)
}
