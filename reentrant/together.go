// SPDX-License-Identifier: Apache-2.0

package reentrant

import (
	"context"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/gate"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/layout"
	"github.com/signalbox-go/signalbox/internal/member"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// maxTogether bounds how many locks go in one script: 64 of them take a server some 0.1 ms.
const maxTogether = 64

// Place answers where the lock stands among all locks, for package multilock.
func (l *Lock) Place() signalbox.Place {
	return l.root().Place("reentrant", member.Whole, (*part)(l))
}

// part is a Lock as it is taken together with others.
type part Lock

// candidate is a lock whose gate has let the caller through.
type candidate struct {
	lock *Lock
	gate *gate.Gate
}

// Gather implements member.Gatherer.
//
// The caller waits at the gate of this lock, and at the server for this lock, while it holds none of those behind: their
// gates are tried, never waited at, and left again before anything is waited for. So who waits holds only what is
// before it in order, at the gates as at the server.
func (p *part) Gather(ctx context.Context, behind []member.Gatherer) ([]hold.Lease, error) {
	l := (*Lock)(p)
	lease, carried, err := l.enter(ctx)
	if carried || err != nil {
		return some(lease, err)
	}
	if err = l.base.Session.Begin(); err != nil {
		return nil, err
	}
	g := l.realm.Gates.Use(l.base.Names.Holder)
	turn, err := l.turn(ctx, g)
	switch {
	case err != nil:
		l.leave(g, clock.Now())
		return nil, err
	case turn.Passed:
		return some(turn.Lease, nil)
	}
	if leases := l.together(ctx, g, behind); len(leases) > 0 {
		return leases, nil
	}
	if lease, err = l.contend(ctx, g); err != nil {
		l.leave(g, clock.Now())
	}
	return some(lease, err)
}

// TryGather implements member.Gatherer.
func (p *part) TryGather(ctx context.Context, behind []member.Gatherer) ([]hold.Lease, error) {
	l := (*Lock)(p)
	lease, carried, err := l.enter(ctx)
	if carried || err != nil {
		return some(lease, err)
	}
	if err = l.base.Session.Begin(); err != nil {
		return nil, err
	}
	g := l.realm.Gates.Use(l.base.Names.Holder)
	if !g.Try() {
		l.leave(g, clock.Now())
		return nil, errs.ErrHeld
	}
	if leases := l.together(ctx, g, behind); len(leases) > 0 {
		return leases, nil
	}
	return some(l.tryAt(ctx, g))
}

func some(lease hold.Lease, err error) ([]hold.Lease, error) {
	if err != nil {
		return nil, err
	}
	return []hold.Lease{lease}, nil
}

// together takes the lock, whose gate is g, and of those behind as many as there are at once. Where it answers none the
// caller is the contender of this lock still, and of no other.
func (l *Lock) together(ctx context.Context, g *gate.Gate, behind []member.Gatherer) []hold.Lease {
	lot := l.lot(ctx, g, behind)
	if len(lot) == 1 {
		return nil
	}
	tries, _ := l.tryAll(ctx, lot) // what went wrong the contender finds out, or whoever tries the lock alone
	var leases []hold.Lease
	for i, c := range lot {
		isTaken := i < len(tries) && tries[i].result == taken
		if isTaken && len(leases) == i {
			lease, err := c.lock.begin(c.gate, tries[i])
			if err == nil {
				leases = append(leases, lease)
				continue
			}
		} else if isTaken {
			c.lock.withdraw(tries[i].hold, 0)
		}
		if i > 0 {
			c.gate.Quit()
			c.lock.leave(c.gate, clock.Now())
		}
	}
	return leases
}

// lot answers the lock, whose gate is g, and of those behind the first ones whose gates let the caller through
// at once and that can go in the same script.
func (l *Lock) lot(ctx context.Context, g *gate.Gate, behind []member.Gatherer) []candidate {
	now := clock.Now()
	lot := make([]candidate, 1, min(len(behind)+1, maxTogether))
	lot[0] = candidate{l, g}
	if !l.goesTogether() || g.StandsBack(now) || l.base.Session.Ready() != nil || ctx.Err() != nil {
		return lot
	}
	for _, other := range behind {
		p, ok := other.(*part)
		next := (*Lock)(p)
		if !ok || len(lot) == maxTogether || next.lotOf() != l.lotOf() || !next.goesTogether() {
			return lot
		}
		if _, carried := hold.Carried(ctx, &next.realm.Realm, next.base.Names.Holder); carried {
			return lot
		}
		if next.base.Session.Begin() != nil {
			return lot
		}
		at := next.realm.Gates.Use(next.base.Names.Holder)
		if !at.TryNow(now) {
			next.leave(at, now)
			return lot
		}
		lot = append(lot, candidate{next, at})
	}
	return lot
}

// goesTogether reports whether the lock may be taken with others by one script: there is one for the library's own layout, and it
// waits for no replicas.
func (l *Lock) goesTogether() bool {
	return l.base.Err == nil && l.base.Replicas.Count == 0 && l.base.Layout == layout.Native()
}

func (l *Lock) lotOf() member.Lot {
	return member.Lot{Session: l.base.Session, Slot: l.base.Slot, Layout: l.base.Layout}
}

// tryAll sends one script that takes the lot in order, as far as it is free, and answers what became of each that it
// came to. Where it does not learn the outcome it takes all of them back, off the caller's path.
func (l *Lock) tryAll(ctx context.Context, lot []candidate) ([]try, error) {
	s := l.base.Session
	if err := s.Meet(ctx, l.base.Names.Holder); err != nil {
		return nil, err
	}
	sent := clock.Now()
	tries := make([]try, len(lot))
	call := wire.Call{
		Script: scripts.ReentrantGather,
		Keys:   make([]string, 0, len(lot)),
		Args:   make([]string, 0, 3*len(lot)),
	}
	notAfter := ""
	for i, c := range lot {
		tries[i] = try{hold: s.NewHold(), sent: sent, notAfter: s.NotAfter(l.base.Slot, sent, c.lock.base.Set.Life())}
		if i == 0 || tries[i].notAfter != tries[i-1].notAfter {
			notAfter = tries[i].notAfter.Text()
		}
		call.Keys = append(call.Keys, c.lock.base.Names.Holder)
		call.Args = append(call.Args, tries[i].hold+s.Tail(), c.lock.lifeMS, notAfter)
	}
	reply, err := s.Runner.Run(ctx, call)
	if err != nil {
		if wire.Judge(err) == wire.Unknown {
			for i, c := range lot {
				c.lock.withdraw(tries[i].hold, tries[i].notAfter)
			}
		}
		return nil, err
	}
	for i := range min(reply.Len(), len(lot)) {
		answer, err := reply.Part(i)
		if err == nil {
			err = lot[i].lock.read(&tries[i], answer)
		}
		if err != nil {
			return tries[:i], err // it was not taken, and nothing behind it
		}
	}
	return tries[:min(reply.Len(), len(lot))], nil
}

// Lot implements member.Returner.
func (n *tenure) Lot() member.Lot { return n.lock.lotOf() }

// Return implements member.Returner: those that somebody waits for in the process are passed on, and the rest is
// given back by one script.
func (n *tenure) Return(now clock.Instant, others []member.Returner) []error {
	answers := make([]error, 1+len(others))
	given, asked := make([]returned, 0, len(answers)), []returned(nil)
	for i := range answers {
		m := n
		if i > 0 {
			m = others[i-1].(*tenure) //nolint:errcheck,forcetypeassert // those of one lot are of one type
		}
		switch m.gate.Pass(now, m.lock.passable(), m.Pass) {
		case gate.Passed:
			m.lock.leave(m.gate, now)
		case gate.Ask, gate.Spent:
			asked = append(asked, returned{m, &answers[i]})
		case gate.GiveBack:
			if answers[i] = m.stop(now); answers[i] == nil {
				given = append(given, returned{m, &answers[i]})
			}
		}
	}
	releaseAll(now, given)
	for _, r := range asked {
		*r.answer = r.tenure.yield(now, r.tenure.lock.scripts.Yield, r.tenure.lock.keys())
	}
	return answers
}

// returned is a tenure on its way back, and where what became of it is to be told.
type returned struct {
	tenure *tenure
	answer *error
}

// releaseAll gives back tenures of one lot that have stopped, by one script.
func releaseAll(now clock.Instant, all []returned) {
	if len(all) == 0 {
		return
	}
	first := all[0].tenure
	s := first.lock.base.Session
	left := first.Term.Deadline().Until(now)
	call := wire.Call{
		Script: first.lock.scripts.Release,
		Keys:   make([]string, 0, len(all)),
		Args:   make([]string, 0, 5*len(all)),
	}
	for _, r := range all {
		left = min(left, r.tenure.Term.Deadline().Until(now))
		call.Keys = append(call.Keys, r.tenure.lock.base.Names.Holder)
		call.Args = r.tenure.appendArgs(call.Args)
	}
	patience := s.PatientUnlock(left)
	defer patience.End()
	reply, err := s.Runner.Run(patience, call)
	// A slot that is on the move can be asked for one key at a time.
	alone := len(all) > 1 && err != nil && wire.Judge(err) == wire.Wait
	for i, r := range all {
		answer, failure := reply, err
		switch {
		case alone:
			answer, failure = r.tenure.lock.realm.Release.Run(patience, call.Keys[i:i+1], r.tenure.releaseArgs()...)
		case err == nil && len(all) > 1:
			answer, failure = reply.Part(i)
		}
		*r.answer = r.tenure.released(now, answer, failure, errs.ErrLost)
	}
}
