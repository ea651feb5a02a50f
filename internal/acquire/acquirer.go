// SPDX-License-Identifier: Apache-2.0

package acquire

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/queue"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/waitroom"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// Acquirer acquires one lock with one request. It is written once. The names are those of the kind of the lock.
type Acquirer struct {
	Base
	*Shared
}

// Shared is what the locks of a session share if they are of one kind and have the same options. Scope is where their leases can be
// entered again.
type Shared struct {
	Manager *Manager
	Scope   *hold.Scope
	Request *queue.Request
	renewal hold.Config // of holds without an end
}

// NewShared returns what locks share whose leases are as long as lease.
func (m *Manager) NewShared(scope *hold.Scope, request *queue.Request, lease time.Duration) Shared {
	s := Shared{m, scope, request, hold.Config{Keeper: m.session.Keeper, Script: m.Renew, Life: lease, Renewed: true}}
	if request.KeepFor > 0 || request.Wanted {
		s.renewal.Script, s.renewal.MayBeIdle, s.renewal.Wanted = m.Keep, request.KeepFor > 0, request.Wanted
	}
	return s
}

// Acquire blocks until the caller holds the lock. If the question for replicas had no reply, Acquire releases the
// hold and waits again.
func (a *Acquirer) Acquire(ctx context.Context) (hold.Lease, error) {
	if a.ErrInCluster != nil {
		if err := a.Base.Await(ctx); err != nil {
			return hold.Lease{}, err
		}
	}
	for fails := 0; ; fails++ {
		lease, err := a.acquireOnce(ctx)
		if err == nil || a.Base.Replicas.Count == 0 || ctx.Err() != nil || wire.Judge(err) == wire.Final {
			return lease, err
		}
		a.Base.Session.BackOff(ctx, fails, nil)
	}
}

// acquireOnce is Acquire without the repetition. The session counts the call as long as it lasts; a hold is counted on its own.
func (a *Acquirer) acquireOnce(ctx context.Context) (hold.Lease, error) {
	if err := a.Base.Session.Begin(); err != nil {
		return hold.Lease{}, err
	}
	defer a.Base.Session.End()
	q, unused := a.useLocalQueue()
	defer q.Done(a.Names.Holder)
	call := waitroom.Acquisition{Room: q, Key: a.Request.ShareKey, Source: a, Concurrent: a.Request.Concurrent, Memory: unused}
	defer call.End()
	for {
		t, lease, err := call.Await(ctx)
		if t == nil {
			return lease, err
		}
		if lease, err = a.beginGranted(ctx, q, t, err); err == nil && !call.AtOnce {
			lease.SetQueued()
		}
		if !call.Deliver(lease, err) {
			return lease, err
		}
	}
}

// lockMemory is the memory of what a lock needs that no other goroutine of the session wants: a ticket in the server's queue, the hold
// that may come of it, and both queues.
type lockMemory struct {
	queue.QueuedTicket

	held   heldLock
	local  waitroom.Room
	server queue.Queue
}

// useLocalQueue returns the queue of the lock in this process, and counts the caller as its user. If the session had none, the
// queue is part of unused, of which the caller may use the rest; otherwise unused is nil.
func (a *Acquirer) useLocalQueue() (q *waitroom.Room, unused *lockMemory) {
	q = a.Manager.LocalQueues.UseOrMake(a.Names.Holder, func() *waitroom.Room {
		unused = new(lockMemory)
		return &unused.local
	})
	return q, unused
}

// NewTicket implements waitroom.TicketSource. memory is of type *lockMemory.
func (a *Acquirer) NewTicket(memory any) (waitroom.Ticket, error) {
	queues := a.Manager.Queues
	if queues == nil {
		return a.Manager.Retries.NewTicket(&a.Names, a.Request)
	}
	if unused, _ := memory.(*lockMemory); unused != nil {
		return unused, queues.MakeTicket(&unused.QueuedTicket, &unused.server, &a.Names, a.Request)
	}
	t := new(queue.QueuedTicket)
	return t, queues.MakeTicket(t, nil, &a.Names, a.Request)
}

// beginGranted leaves the queue with what ticket t was granted, even if the grant came in the instant in which waiting failed
// with err. It returns the first lease, or why it has no lease.
func (a *Acquirer) beginGranted(ctx context.Context, q *waitroom.Room, t waitroom.Ticket, err error) (hold.Lease, error) {
	h, since := t.(queue.Ticket).Granted() //nolint:errcheck,forcetypeassert // NewTicket makes no other tickets
	if h == nil {
		return hold.Lease{}, err
	}
	waited := time.Duration(0)
	if !since.IsZero() {
		waited = h.Grant().Read - since.Mono()
	}
	if own, is := t.(*lockMemory); is {
		return a.beginHold(ctx, q, &own.held, h, waited)
	}
	return a.beginHold(ctx, q, new(heldLock), h, waited)
}

// Admit implements waitroom.TicketSource.
func (a *Acquirer) Admit(waiters int) error {
	if most := a.Base.MaxWaiters; most > 0 && waiters >= most {
		return fmt.Errorf("%w: %d: WithMaxWaiters allows %d", errs.ErrBusy, waiters, most)
	}
	return a.Base.Session.Ready()
}

// TryAcquire acquires the lock if it is free and has no earlier waiter, or joins a hold that the session shares.
func (a *Acquirer) TryAcquire(ctx context.Context) (hold.Lease, error) {
	if a.ErrInCluster != nil {
		if err := a.Base.Connect(ctx); err != nil {
			return hold.Lease{}, err
		}
	}
	if lease, ok := a.joinShared(ctx); ok {
		return lease, nil
	}
	q, unused := a.useLocalQueue()
	lease, began := q.UseOrTry(ctx, a.Request.ShareKey)
	if !began {
		q.Done(a.Names.Holder)
		if lease == (hold.Lease{}) {
			return hold.Lease{}, errs.ErrHeldHere
		}
		return lease, nil
	}
	defer a.endLocalTry(q)
	h, held, err := a.tryServer(ctx, unused)
	if err == nil {
		lease, err = a.beginHold(ctx, q, held, h, 0)
	}
	return lease, CutShort(ctx, err)
}

// tryServer acquires the lock if that is possible at once, and returns memory for the hold. Both use unused, if that is not nil.
func (a *Acquirer) tryServer(ctx context.Context, unused *lockMemory) (h queue.Hold, held *heldLock, err error) {
	queues := a.Manager.Queues
	switch {
	case queues == nil:
		h, err = a.Manager.Retries.Try(ctx, &a.Names, a.Request)
	case unused == nil:
		h, err = queues.Try(ctx, &a.Names, a.Request)
	default:
		h, err = queues.TryIn(ctx, &unused.QueuedTicket, &unused.server, &a.Names, a.Request)
		return h, &unused.held, err
	}
	return h, new(heldLock), err
}

// endLocalTry counts a caller out that began to try.
func (a *Acquirer) endLocalTry(q *waitroom.Room) {
	q.EndTry(a.Request.ShareKey)
	q.Done(a.Names.Holder)
}

// beginHold makes, in memory, the hold that was granted to a ticket that had waited for so long. It releases the hold instead if too
// few replicas have it, or if the session closed meanwhile.
func (a *Acquirer) beginHold(ctx context.Context, q *waitroom.Room, memory *heldLock, h queue.Hold, waited time.Duration) (hold.Lease, error) {
	err := a.replicate(ctx, h)
	if err != nil {
		// Waited for, so that nothing is left when the caller gets the error, and it can try again at once.
		// If ctx ends meanwhile, the release continues in the background.
		_, _ = h.Release(ctx, 0, max(a.Base.Terms.Life(), h.Grant().Life))
	} else if err = a.Base.Session.Ready(); err != nil {
		h.Abandon()
	}
	if err != nil {
		h.Done()
		return hold.Lease{}, err
	}
	return a.startHold(memory, q, h, timers.Instant{}, waited), nil
}

// startHold makes h, which is zero, the hold that was granted to a ticket that had waited for so long. The caller uses q. The hold ends
// by until at the latest, unless until is the zero Instant.
func (a *Acquirer) startHold(h *heldLock, q *waitroom.Room, serverHold queue.Hold, until timers.Instant, waited time.Duration) hold.Lease {
	h.acquirer, h.serverHold = a, serverHold
	grant := serverHold.Grant()
	if a.sharesTickets() {
		h.localQueue, h.turnEnds = q, grant.Read+a.Manager.Turns.length(waited)
		q.UseAgain()
		q.HoldBegan(a.Request.ShareKey)
	}
	first, last := grant.Tokens()
	lease := h.Hold.Begin(h, a.Scope, first, lastToken(first, last, waited))
	config, life, sent := a.renewalConfig(grant, until)
	h.Term.Init(&h.Hold, config, life, sent)
	serverHold.Register(h) // from here on Close finds it
	h.Term.Start(sent)
	if err := a.Base.Session.EvictionError(); err != nil {
		h.Term.Break(err, false)
	}
	if h.localQueue != nil {
		h.localQueue.ShareHold(a.Request.ShareKey, lease)
	}
	return lease
}

// replicate waits until enough replicas have the hold, if the options ask for that. The wait takes time
// from the hold, so replicate renews it in the same round trip.
func (a *Acquirer) replicate(ctx context.Context, h queue.Hold) error {
	if a.Base.Replicas.Count == 0 {
		return nil
	}
	// The extension includes the wait.
	set := &a.Base.Terms
	sent, life := timers.Now(), min(set.First()+a.Base.Replicas.Wait, set.Life())
	reply, shortfall, err := a.Base.Session.RunReplicated(ctx, wire.Call{
		Script: a.Manager.Renew,
		Keys:   []string{a.Names.Holder},
		Args:   a.renewalOf(h, life),
	}, a.Base.Replicas)
	if err == nil && reply.Code() != wire.Done {
		err = errs.ErrLostGone
	}
	if err = errs.Join(err, shortfall); err != nil {
		return CutShort(ctx, err)
	}
	h.Extended(life, sent)
	return nil
}

// renewalOf returns the arguments of a script that renews h alone.
func (a *Acquirer) renewalOf(h queue.Hold, life time.Duration) []string {
	return proto.Renewal{Hold: a.Manager.RenewalName(h), TTLMS: wire.Milliseconds(life)}.AppendTo(nil)
}

// renewalConfig returns how the hold is renewed, for how long it has the lock to begin with, and from when that counts. If until is
// not the zero Instant, the hold ends by then, and the grant has all that is left.
func (a *Acquirer) renewalConfig(grant queue.Grant, until timers.Instant) (config *hold.Config, life time.Duration, sent timers.Instant) {
	set, isRenewed := a.Base.Terms, true
	life, sent = grant.Life, grant.Sent
	switch {
	case set.Fixed:
		// If the grant gives less time than was asked for, one renewal gives the rest, and no more.
		isRenewed = life < set.Lease && until.IsZero()
		until = cmp.Or(until, grant.Learned().Add(set.Lease))
	case set.MaxHold > 0:
		until = cmp.Or(until, grant.Learned().Add(set.MaxHold))
	}
	if config = &a.renewal; !until.IsZero() {
		own := *config
		own.Until, own.Renewed, own.Fixed = until, isRenewed, set.Fixed
		config = &own
	}
	// By the monotonic clock: the wall clock may have been set back between the two.
	if requested := grant.Read + set.Life(); requested < sent.Mono()+life {
		life, sent = set.Life(), grant.Learned() // the grant is longer than the request
	}
	return config, life, sent
}

// ShareKeyFor returns the share key of the goroutines that wait for a lock of that kind. key says what becomes of the
// holds: they are handed over, shared, or neither if key is zero. Without a queue at the server one goroutine tries at
// a time, with the share key own, unless each has a channel of its own.
func ShareKeyFor(kind *proto.Table, key, own waitroom.ShareKey) waitroom.ShareKey {
	retry, none := kind.Retry, waitroom.ShareKey{}
	switch {
	case retry == nil, key.Policy == waitroom.Shared, retry.HandsOver && key != none:
		return key
	case retry.ChannelPerWaiter:
		return none
	}
	return own
}

// sharesTickets reports whether goroutines of the process that wait for the lock share a ticket: one at a time asks the server.
func (a *Acquirer) sharesTickets() bool { return a.Request.ShareKey != waitroom.ShareKey{} }

// joinShared returns a lease of the hold that the session shares, if there is one that may be shared further.
func (a *Acquirer) joinShared(ctx context.Context) (hold.Lease, bool) {
	if a.Request.ShareKey.Policy != waitroom.Shared {
		return hold.Lease{}, false
	}
	q := a.Manager.LocalQueues.Use(a.Names.Holder)
	defer q.Done(a.Names.Holder)
	return q.JoinShared(ctx, a.Request.ShareKey, a)
}

// MayShare implements waitroom.TicketSource.
func (a *Acquirer) MayShare(ctx context.Context, lease hold.Lease) bool {
	mayShare := proto.MayShare{Hold: lease.ID()}
	reply, err := a.Base.Session.Runner.Run(ctx, wire.Call{Script: a.Manager.Share, Keys: a.Manager.KeysOf(a.Names).All, Args: mayShare.AppendTo(nil)})
	return err == nil && reply.Code() == wire.Done
}
