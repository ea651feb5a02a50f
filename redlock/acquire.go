// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/waitroom"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// request is what goroutines wait for in the process, whatever the options of their locks: so one at a time asks the
// servers. A hold is never handed over: it has the terms and the token of the goroutine that asked for it.
func request() waitroom.ShareKey { return waitroom.ShareKey{Policy: waitroom.Own, MaxHolds: 1} }

func (l *Lock) lock(ctx context.Context) (hold.Lease, error) {
	return l.acquire(ctx, func(ctx context.Context, q *waitroom.Room) (hold.Lease, error) {
		call := waitroom.Acquisition{Room: q, Key: request(), Source: &retryTicket{lock: l}}
		defer call.End()
		t, lease, err := call.Await(ctx)
		if t == nil {
			return lease, err
		}
		lease, err = t.(*retryTicket).makeHold(q, err) //nolint:errcheck,forcetypeassert // it is its own source
		call.Deliver(lease, err)                       // no other goroutine gets it
		return lease, err
	})
}

func (l *Lock) tryLock(ctx context.Context) (hold.Lease, error) {
	return l.acquire(ctx, func(ctx context.Context, q *waitroom.Room) (hold.Lease, error) {
		if !q.BeginTry(request()) {
			return hold.Lease{}, errs.ErrHeld
		}
		defer q.EndTry(request())
		b := l.startBallot(false) //nolint:contextcheck // what is on its way when ctx ends is undone
		token, err := b.awaitOutcome(ctx)
		var lease hold.Lease
		if err == nil {
			lease, err = l.makeHold(q, b, token)
		}
		if err != nil {
			return hold.Lease{}, b.summary("").explain(ctx, err)
		}
		return lease, nil
	})
}

// acquire enters again, or counts the caller in. If acquire fails, the caller is counted out again; otherwise the hold
// counts in its place.
func (l *Lock) acquire(ctx context.Context, acquire func(context.Context, *waitroom.Room) (hold.Lease, error)) (hold.Lease, error) {
	lease, carried, err := l.enter(ctx)
	if carried || err != nil {
		return lease, err
	}
	call := l.base.BeginCall(ctx)
	if err = l.beginAll(); err != nil {
		return lease.Observe(call, err)
	}
	q := l.group.queues.Use(l.base.Names.Holder)
	lease, err = acquire(ctx, q)
	if err != nil {
		l.endAll(q)
	}
	return lease.Observe(call, err)
}

// beginAll counts a call in, at every session or at none.
func (l *Lock) beginAll() error {
	for i, m := range l.members {
		if err := m.Begin(); err != nil {
			for _, begun := range l.members[:i] {
				begun.End()
			}
			return err
		}
	}
	return nil
}

// endAll counts a call that failed, or a hold that is over, out of the queue and the sessions.
func (l *Lock) endAll(q *waitroom.Room) {
	q.Done(l.base.Names.Holder)
	for _, m := range l.members {
		m.End()
	}
}

// makeHold makes the hold that a ballot gave, or releases it if the session closed meanwhile.
func (l *Lock) makeHold(q *waitroom.Room, b *ballot, token wire.Stamp) (hold.Lease, error) {
	if err := l.ready(); err != nil {
		b.abandon()
		return hold.Lease{}, err
	}
	set := l.base.Terms
	h := &quorumHold{lock: l, queue: q, ballot: b}
	lease := h.Begin(h, &l.group.scope, token.Token(), token.Token())
	terms := &hold.Config{Keeper: l.group.keeper, Life: set.Lease, Renewed: !set.Fixed}
	if set.MaxHold > 0 {
		terms.Until = b.sent.Add(set.MaxHold)
	}
	h.Term.Init(&h.Hold, terms, set.First(), b.sent)
	// Before the start: a term that is over already ends at once, and OnLost counts it out.
	q.HoldBegan(request())
	if l.base.Quorum.Fenced {
		b.watched.Store(true) // a server that granted late does not keep the token yet
	}
	needsRecheck := l.group.holds.add(h, b.rechecks)
	h.Term.Start(b.sent)
	if needsRecheck {
		h.Term.Recheck()
	}
	for _, m := range l.members {
		if err := m.EvictionError(); err != nil {
			h.Term.Break(err, false)
		}
	}
	return lease, nil
}
