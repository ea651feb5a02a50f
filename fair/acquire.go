// SPDX-License-Identifier: Apache-2.0

package fair

import (
	"context"
	"errors"
	"time"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/line"
	"github.com/signalbox-go/signalbox/internal/primitive"
	"github.com/signalbox-go/signalbox/internal/renewal"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

func (l *Lock) lock(ctx context.Context) (hold.Lease, error) {
	lease, carried, err := l.enter(ctx)
	if carried || err != nil {
		return lease, err
	}
	return l.acquire(ctx, func(q *line.Queue) (*line.Attempt, error) { return q.Take(ctx, l.base.Set.Life()) })
}

func (l *Lock) tryLock(ctx context.Context) (hold.Lease, error) {
	lease, carried, err := l.enter(ctx)
	if carried || err != nil {
		return lease, err
	}
	lease, err = l.acquire(ctx, func(q *line.Queue) (*line.Attempt, error) { return q.Try(ctx, l.base.Set.Life()) })
	return lease, primitive.CutShort(ctx, err)
}

// enter answers a lease by the one that ctx carries.
func (l *Lock) enter(ctx context.Context) (lease hold.Lease, carried bool, err error) {
	if l.base.Err != nil {
		return hold.Lease{}, false, l.base.Err
	}
	return l.base.Enter(ctx, &l.realm.hold)
}

// acquire counts the caller in, and out again where take fails; the hold takes its place otherwise.
func (l *Lock) acquire(ctx context.Context, take func(*line.Queue) (*line.Attempt, error)) (hold.Lease, error) {
	if err := l.base.Session.Begin(); err != nil {
		return hold.Lease{}, err
	}
	q := l.realm.Use(l.keys)
	a, err := take(q)
	if err == nil {
		err = l.replicate(ctx, a)
	}
	if err == nil {
		var lease hold.Lease
		if lease, err = l.begin(q, a); err == nil {
			return lease, nil
		}
	}
	l.leave(q)
	return hold.Lease{}, err
}

// replicate waits until replicas have the hold, where that is asked for. Whoever grants a lock writes it on a
// wire of its own, on which nobody can wait for it here. So the hold is lengthened first: who has that has what
// the server wrote before, and the grant with it.
func (l *Lock) replicate(ctx context.Context, a *line.Attempt) error {
	if l.base.Replicas.Count == 0 {
		return nil
	}
	sent, life := clock.Now(), l.base.Set.Life()
	reply, shortfall, err := l.base.Session.RunReplicated(ctx, wire.Call{
		Script: scripts.HolderRenew,
		Keys:   []string{l.keys.Holder},
		Args:   []string{named(a), renewal.Milliseconds(life)},
	}, l.base.Replicas)
	if err == nil && reply.Int(0) != 1 {
		err = errs.ErrLost
	}
	if err = errors.Join(err, shortfall); err != nil {
		a.Abandon()
		return primitive.CutShort(ctx, err)
	}
	a.Lengthened(life, sent)
	return nil
}

// named answers the hold as renewals name it: with its token, so that one that comes too late touches no
// later tenure.
func named(a *line.Attempt) string { return a.Grant().Stamp.Text() + a.Hold() }

// leave counts a call that failed, or a hold that is over, out of the line and the session.
func (l *Lock) leave(q *line.Queue) {
	l.realm.Done(q)
	l.base.Session.End()
}

// begin makes the hold that was granted, or gives it back where the session closed meanwhile.
func (l *Lock) begin(q *line.Queue, a *line.Attempt) (hold.Lease, error) {
	if err := l.base.Session.Ready(); err != nil {
		a.Abandon()
		return hold.Lease{}, err
	}
	n := &tenure{lock: l, queue: q, attempt: a}
	grant := a.Grant()
	token := grant.Stamp.Token()
	lease := n.Hold.Begin(n, &l.realm.hold, token, token)
	terms, life, sent := l.terms(grant)
	terms.Hold = named(a)
	n.lasts = max(terms.Life, grant.Life)
	n.Term.Init(l.base.Session.Keeper, &n.Hold, terms, life, sent)
	a.Begin(n) // from here on Close finds it
	n.Term.Start(sent, life)
	if err := l.base.Session.Evicted(); err != nil {
		n.Evict(err)
	}
	return lease, nil
}

// terms answers what the hold is to keep, and for how long it has the lock to begin with, from when.
func (l *Lock) terms(grant line.Grant) (terms renewal.Terms, life time.Duration, sent clock.Instant) {
	set := l.base.Set
	life, sent = grant.Life, grant.Sent
	terms = renewal.Terms{Key: l.keys.Holder, Life: set.Lease, Renewed: true}
	switch {
	case set.Fixed:
		// Where the grant gives less than was asked for, one renewal gives the rest, and no more.
		terms.Until, terms.Fixed, terms.Renewed = grant.Read.Add(set.Lease), true, life < set.Lease
	case set.MaxHold > 0:
		terms.Until = grant.Read.Add(set.MaxHold)
	}
	if asked := grant.Read.Add(set.Life()); asked.Until(sent.Add(life)) < 0 {
		life, sent = set.Life(), grant.Read // it gives more than was asked for
	}
	return terms, life, sent
}
