// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/gate"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/renewal"
	"github.com/signalbox-go/signalbox/internal/wire"
)

func (l *Lock) lock(ctx context.Context) (hold.Lease, error) {
	return l.acquire(ctx, l.queue)
}

func (l *Lock) tryLock(ctx context.Context) (hold.Lease, error) {
	return l.acquire(ctx, func(ctx context.Context, g *gate.Gate) (hold.Lease, error) {
		if !g.Try() {
			return hold.Lease{}, errs.ErrHeld
		}
		b := l.ask(false) //nolint:contextcheck // what is on its way when ctx ends is settled
		lease, err := l.take(ctx, g, b)
		if err != nil {
			g.Quit()
			return hold.Lease{}, b.summary("").explain(ctx, err)
		}
		return lease, nil
	})
}

// acquire enters again, or counts the caller in and out again where take fails; the hold takes its place
// otherwise.
func (l *Lock) acquire(ctx context.Context, take func(context.Context, *gate.Gate) (hold.Lease, error)) (hold.Lease, error) {
	lease, carried, err := l.enter(ctx)
	if carried || err != nil {
		return lease, err
	}
	if err = l.begin(); err != nil {
		return hold.Lease{}, err
	}
	g := l.group.gates.Use(l.base.Names.Holder)
	lease, err = take(ctx, g)
	if err != nil {
		l.leave(g)
	}
	return lease, err
}

// begin counts a call in, at every session or at none.
func (l *Lock) begin() error {
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

// leave counts a call that failed, or a hold that is over, out of the gate and the sessions.
func (l *Lock) leave(g *gate.Gate) {
	l.group.gates.Done(g, clock.Now()) // no waiter defers to others at this gate, so it is removed
	for _, m := range l.members {
		m.End()
	}
}

// queue waits for the turn of the caller in this process, and contends when it comes. A hold is never passed on inside
// the process: its token is its own.
func (l *Lock) queue(ctx context.Context, g *gate.Gate) (hold.Lease, error) {
	w := l.base.Session.Waiter()
	defer l.base.Session.Waited(w) // it is in no queue on return, and its Turn is empty
	w.Accepts = gate.Terms{}
	if !g.Join(w) {
		if err := l.await(ctx, g, w); err != nil {
			return hold.Lease{}, err
		}
	}
	return l.contend(ctx, g)
}

// await waits for the turn of w.
func (l *Lock) await(ctx context.Context, g *gate.Gate, w *gate.Waiter) error {
	// Close sets closing and then sends the queue away: it finds w there, or w finds it set.
	err := l.ready()
	if err == nil {
		select {
		case turn := <-w.Turn:
			return turn.Err
		case <-ctx.Done():
			err = errs.Ended(ctx)
		}
	}
	left, isHeld := g.Leave(w)
	switch {
	case !left:
		turn := <-w.Turn // given in the same instant; a contender finds the context ended
		return turn.Err
	case isHeld && ctx.Err() != nil:
		return errs.WhileHeld(err)
	}
	return err
}

// contend takes the lock at the servers, as the only goroutine of the process that tries to.
func (l *Lock) contend(ctx context.Context, g *gate.Gate) (hold.Lease, error) {
	c := &contention{lock: l}
	defer c.close()
	for {
		err := l.ready()
		if err == nil && ctx.Err() != nil {
			err = c.ended(ctx)
		}
		if err == nil {
			b := l.ask(true) //nolint:contextcheck // as in tryLock
			var lease hold.Lease
			if lease, err = l.take(ctx, g, b); err == nil {
				return lease, nil
			}
			err = c.next(ctx, g, b, err)
		}
		if err != nil {
			g.Quit()
			return hold.Lease{}, err
		}
	}
}

// take waits for the outcome of a ballot and makes the hold that it gave.
func (l *Lock) take(ctx context.Context, g *gate.Gate, b *ballot) (hold.Lease, error) {
	token, err := b.elected(ctx)
	if err != nil {
		return hold.Lease{}, err
	}
	if err := l.ready(); err != nil {
		b.end()
		return hold.Lease{}, err
	}
	return l.hold(g, b, token), nil
}

// hold makes the hold that a ballot gave.
func (l *Lock) hold(g *gate.Gate, b *ballot, token wire.Stamp) hold.Lease {
	set := l.base.Set
	n := &tenure{lock: l, gate: g, ballot: b}
	lease := n.Begin(n, &l.group.realm, token.Token(), token.Token())
	terms := renewal.Terms{Key: l.base.Names.Holder, Hold: b.attempt, Life: set.Lease, Renewed: !set.Fixed}
	if set.MaxHold > 0 {
		terms.Until = b.sent.Add(set.MaxHold)
	}
	n.Term.Init(l.group.keeper, &n.Hold, terms, set.Life(), b.sent)
	// The gate before the start: a term that is over already ends at once, and tells the gate.
	g.Won(clock.Now(), n)
	n.Term.Start(b.sent, set.Life())
	for _, m := range l.members {
		if err := m.Evicted(); err != nil {
			n.Term.Break(err, false)
		}
	}
	return lease
}
