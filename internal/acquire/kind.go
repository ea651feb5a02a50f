// SPDX-License-Identifier: Apache-2.0

package acquire

import (
	"context"
	"fmt"
	"time"

	"github.com/signalbox-go/signalbox/internal/acquire/local"
	"github.com/signalbox-go/signalbox/internal/acquire/queue"
	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/renewal"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// Kind is one kind of lock in one session.
type Manager struct {
	queue.Granter

	// Renew lengthens the life of holds.
	Renew *scripts.Script
	// Named returns what renewals call the hold of an attempt.
	RenewalName func(a queue.ServerHold) string
	// Queues hold the goroutines of the process that wait, and count them.
	LocalQueues *local.Table
	// Passing is how holds are handed over inside the process, if they are.
	Turns *TurnPolicy
	// Share asks whether goroutines may continue to share a hold; nil if none is shared.
	Share *scripts.Script
	// Gather acquires locks together, and Scatter releases holds together; see queue.Gather and
	// queue.Scatter. They are nil if each lock is acquired and released alone.
	AcquireMany, ReleaseMany *scripts.Script
}

// Lock is one lock of a kind: the caller's session, the request, and the realm in which the lease counts. It
// is written once.
type Acquirer struct {
	Manager *Manager
	Base    *Base
	Keys    queue.LockKeys
	Scope   *hold.Scope
	Request *queue.Request
}

// Take blocks until the caller holds the lock. If the question for replicas had no reply, Take releases the
// hold and waits again.
func (l *Acquirer) Acquire(ctx context.Context) (hold.Lease, error) {
	for fails := 0; ; fails++ {
		lease, err := l.acquireOnce(ctx)
		if err == nil || l.Base.Replicas.Count == 0 || ctx.Err() != nil || wire.Judge(err) == wire.Final {
			return lease, err
		}
		l.Base.Session.BackOff(ctx, fails, nil)
	}
}

// take is Take without the repetition.
func (l *Acquirer) acquireOnce(ctx context.Context) (hold.Lease, error) {
	if err := l.Base.Session.Begin(); err != nil {
		return hold.Lease{}, err
	}
	defer l.Base.Session.End() // what it gets is counted on its own
	q := l.Manager.LocalQueues.Use(l.Keys.Holder)
	defer l.Manager.LocalQueues.Done(q)
	if l.sharesTickets() {
		return l.Manager.LocalQueues.Acquire(ctx, q, l.Request.ShareKey, l)
	}
	return q.AcquireAlone(ctx, l.Request.Concurrent, l)
}

// Ready implements local.Source.
func (l *Acquirer) Admit(waiters int) error {
	if most := l.Base.MaxWaiters; most > 0 && waiters >= most {
		return fmt.Errorf("%w: %d: WithMaxWaiters allows %d", errs.ErrBusy, waiters, most)
	}
	return l.Base.Session.Ready()
}

// Try acquires the lock if it is free and has no earlier waiter, or enters a hold that the session shares.
func (l *Acquirer) TryAcquire(ctx context.Context) (hold.Lease, error) {
	if lease, ok := l.joinShared(ctx); ok {
		return lease, nil
	}
	e, err := l.beginTry()
	if err != nil {
		return hold.Lease{}, err
	}
	a, err := e.queue.Try(ctx, l.Request)
	var lease hold.Lease
	if err == nil {
		lease, err = l.beginHold(ctx, e.queue, a, 0)
	}
	e.end(err == nil)
	return lease, CutShort(ctx, err)
}

// entered is a lock that the caller may ask the server for, and does not wait for.
type tryCall struct {
	acquirer   *Acquirer
	localQueue *local.Queue
	queue      queue.Requester
}

// enter counts the caller in, unless goroutines of this session are before it.
func (l *Acquirer) beginTry() (c tryCall, err error) {
	c = tryCall{acquirer: l, localQueue: l.Manager.LocalQueues.Use(l.Keys.Holder)}
	if !c.localQueue.BeginTry(l.Request.ShareKey) {
		l.Manager.LocalQueues.Done(c.localQueue)
		return c, errs.ErrHeldHere
	}
	if err = l.Base.Session.Begin(); err != nil {
		c.leaveLocal()
		return c, err
	}
	c.queue = l.Manager.Use(&l.Keys)
	return c, nil
}

// left counts the caller out. What it got is counted on its own.
func (c tryCall) end(hasHold bool) { //nolint:revive // a fact, not a switch
	if !hasHold {
		c.acquirer.leave(c.queue)
	}
	c.leaveLocal()
}

// leftLocal counts the caller out of the queue of this process.
func (c tryCall) leaveLocal() {
	c.localQueue.EndTry(c.acquirer.Request.ShareKey)
	c.acquirer.Manager.LocalQueues.Done(c.localQueue)
}

// Candidate waits for the lock. One goroutine at a time uses it; that goroutine waits, and begins the hold or
// leaves.
type serverTicket struct {
	acquirer      *Acquirer
	queue         queue.Requester
	request       queue.WaitingRequest
	grantedAtOnce bool                // the first reply granted the lock
	joinedAt      clock.Instant       // when it began to wait; zero if the lock was granted at once
	firstCtx      wire.NoDeadline     // of the first Enter
	requestBuf    queue.QueuedRequest // for place
}

// Stand returns a candidate, or the reason why the session accepts none.
func (l *Acquirer) newServerTicket() (*serverTicket, error) {
	if err := l.Base.Session.Begin(); err != nil {
		return nil, err
	}
	c := &serverTicket{acquirer: l, queue: l.Manager.Use(&l.Keys)}
	c.request = c.queue.Prepare(l.Request, &c.requestBuf)
	return c, nil
}

// Ended returns the error for a goroutine whose ctx has ended while another one waited for both.
func (t *serverTicket) Ended(ctx context.Context) error { return t.request.Ended(ctx) }

// Wait blocks until the lock is granted, or returns why it is not. Call Begin or Wait after it.
func (t *serverTicket) Wait(ctx context.Context) error { return t.request.Wait(ctx) }

// Begin leaves the queue with what was granted, even if the grant came in the instant in which waiting failed
// with err. It returns the first lease, or why it has no lease.
func (t *serverTicket) BeginHold(ctx context.Context, err error) (hold.Lease, error) {
	if sh := t.request.Leave(); sh != nil {
		var lease hold.Lease
		if lease, err = t.acquirer.beginHold(ctx, t.queue, sh, t.waited(sh)); err == nil {
			if !t.grantedAtOnce {
				lease.SetQueued()
			}
			return lease, nil
		}
	}
	t.acquirer.leave(t.queue)
	return hold.Lease{}, err
}

// waited returns how long the candidate waited for its grant.
func (t *serverTicket) waited(sh queue.ServerHold) time.Duration {
	if t.joinedAt.IsZero() {
		return 0
	}
	return sh.Grant().Read.Mono() - t.joinedAt.Mono()
}

// leave counts a call that failed, or a hold that is over, out of the queue and the session.
func (l *Acquirer) leave(q queue.Requester) {
	q.Done()
	l.Base.Session.End()
}

// begin makes the hold that was granted to a ticket that had waited for so long. It releases the hold instead if too few
// replicas have it, or if the session closed meanwhile.
func (l *Acquirer) beginHold(ctx context.Context, q queue.Requester, sh queue.ServerHold, waited time.Duration) (hold.Lease, error) {
	if err := l.replicate(ctx, sh); err != nil {
		// Waited for, so that nothing is left when the caller gets the error, and it can try again at once.
		// If ctx ends meanwhile, the release continues in the background.
		_, _ = sh.Release(ctx, 0, max(l.Base.Terms.Life(), sh.Grant().Life))
		return hold.Lease{}, err
	}
	if err := l.Base.Session.Ready(); err != nil {
		sh.Abandon()
		return hold.Lease{}, err
	}
	return l.startHold(q, sh, clock.Instant{}, waited), nil
}

// start makes the hold that was granted to a ticket that had waited for so long. It ends by until at the latest, unless
// until is the zero Instant.
func (l *Acquirer) startHold(q queue.Requester, sh queue.ServerHold, until clock.Instant, waited time.Duration) hold.Lease {
	h := &heldLock{acquirer: l, queue: q, serverHold: sh}
	grant := sh.Grant()
	if l.sharesTickets() {
		h.localQueue, h.turnEnds = l.Manager.LocalQueues.Use(l.Keys.Holder), grant.Read.Mono()+l.Manager.Turns.length(waited)
		h.localQueue.HoldBegan(l.Request.ShareKey)
	}
	first, last := grant.Tokens()
	lease := h.Hold.Begin(h, l.Scope, first, lastToken(first, last, waited))
	config, life, sent := l.renewalConfig(grant)
	config.Hold = l.Manager.RenewalName(sh)
	if !until.IsZero() {
		config.Until = until
		config.Renewed = config.Renewed && !config.Fixed // it was given all that is left
	}
	h.serverLife = max(config.Life, grant.Life)
	h.Term.Init(l.Base.Session.Keeper, &h.Hold, config, life, sent)
	sh.Begin(h) // from here on Close finds it
	h.Term.Start(sent, life)
	if err := l.Base.Session.EvictionError(); err != nil {
		h.Term.Break(err, false)
	}
	if h.localQueue != nil {
		h.localQueue.ShareHold(l.Request.ShareKey, lease)
	}
	return lease
}

// replicate waits until enough replicas have the hold, if the options ask for that. The wait takes time
// from the hold, so replicate renews it in the same round trip.
func (l *Acquirer) replicate(ctx context.Context, sh queue.ServerHold) error {
	if l.Base.Replicas.Count == 0 {
		return nil
	}
	// The extension includes the wait.
	set := &l.Base.Terms
	sent, life := clock.Now(), min(set.First()+l.Base.Replicas.Wait, set.Life())
	reply, shortfall, err := l.Base.Session.RunReplicated(ctx, wire.Call{
		Script: l.Manager.Renew,
		Keys:   []string{l.Keys.Holder},
		Args:   []string{l.Manager.RenewalName(sh), wire.Milliseconds(life)},
	}, l.Base.Replicas)
	if err == nil && reply.Code() != wire.Done {
		err = errs.ErrLostGone
	}
	if err = errs.Join(err, shortfall); err != nil {
		return CutShort(ctx, err)
	}
	sh.Extended(life, sent)
	return nil
}

// terms returns what the hold is to keep, and for how long it has the lock to begin with, from when.
func (l *Acquirer) renewalConfig(grant queue.Grant) (config renewal.Config, life time.Duration, sent clock.Instant) {
	set := l.Base.Terms
	life, sent = grant.Life, grant.Sent
	config = renewal.Config{Script: l.Manager.Renew, Key: l.Keys.Holder, Life: set.Lease, Renewed: true}
	switch {
	case set.Fixed:
		// If the grant gives less time than was asked for, one renewal gives the rest, and no more.
		config.Until, config.Fixed, config.Renewed = grant.Read.Add(set.Lease), true, life < set.Lease
	case set.MaxHold > 0:
		config.Until = grant.Read.Add(set.MaxHold)
	}
	// By the monotonic clock: the wall clock may have been set back between the two.
	if requested := grant.Read.Add(set.Life()); requested.Mono() < sent.Add(life).Mono() {
		life, sent = set.Life(), grant.Read // the grant is longer than the request
	}
	return config, life, sent
}
