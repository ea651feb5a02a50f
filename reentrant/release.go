// SPDX-License-Identifier: Apache-2.0

package reentrant

import (
	"context"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/gate"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// tenure is the lock held by this process, from the acquire to the release; the goroutines
// that it is passed on to included. It is the hold's home.
//
// Exactly one of release and Lost ends it: release goes on only where it stopped the term, and
// a term that was stopped tells nobody that it ended.
type tenure struct {
	hold.Hold

	lock *Lock
	gate *gate.Gate
	// stamp is what the key says, where it says one. Written by whoever begins or vacates the tenure, one after
	// the other: the gate's lock is between them.
	stamp wire.Stamp
}

// Vacated implements hold.Home: the last lease was unlocked.
func (n *tenure) Vacated(now clock.Instant) error {
	l := n.lock
	switch n.gate.Pass(now, l.passable(), n.Pass) {
	case gate.Passed:
		l.leave(n.gate, now) // who was passed to is counted as a user on its own
		return nil
	case gate.Ask:
		return n.yield(now, l.scripts.Yield, l.keys())
	case gate.Spent:
		return n.yield(now, l.scripts.Next, l.taking)
	case gate.GiveBack:
	}
	return n.release(now)
}

// yield asks the server by script whether the process may pass the lock on further, and gives it back
// where another session waits for it.
func (n *tenure) yield(sent clock.Instant, script *scripts.Script, keys []string) error {
	l := n.lock
	patience := n.patience(sent)
	defer patience.End()
	reply, err := l.base.Session.Runner.Run(patience, wire.Call{
		Script: script,
		Keys:   keys,
		Args:   []string{n.id(), l.lifeMS, n.floor(), l.verb(), l.base.Names.Unlocked, l.base.Floor},
	})
	now := clock.Now()
	switch {
	case err != nil && wire.Judge(err) == wire.Unknown:
		// The lease was unlocked in time. If the lock is gone, this question gave it back, and
		// only the answer was lost.
		return n.releaseWithin(patience, now, nil)
	case err != nil:
		return n.releaseWithin(patience, now, errs.ErrLost)
	}
	switch reply.Int(0) {
	case 0:
		n.Term.Gone()
		return errs.ErrLost
	case 1, 3:
		if !n.Term.Extended(l.base.Set.Lease, sent) {
			// It ended while the question was on its way, and Lost sees to it; or its deadline was
			// reached just now, and the release stops it in time or finds it over.
			return n.releaseWithin(patience, now, errs.ErrLost)
		}
		n.refill(now, reply)
		if n.gate.Pass(now, l.passable(), n.Pass) == gate.Passed {
			l.leave(n.gate, now)
			return nil
		}
		return n.releaseWithin(patience, now, errs.ErrLost)
	}
	if n.Term.Stop(now) == nil {
		n.gate.Vacate()
		n.depart(now, now.Add(gate.StandBack))
	}
	return nil // given back in time, whatever the clock says by now
}

// refill takes the tokens by which the lock may be passed on further.
func (n *tenure) refill(now clock.Instant, reply wire.Reply) {
	if reply.Int(0) == 3 {
		token := numbered(reply.Int(1))
		n.Refill(token, token)
		return // the budget of passing goes on: nobody was asked who waits elsewhere
	}
	n.stamp = reply.Stamp(1)
	n.Refill(n.stamp.Token(), (n.stamp + wire.Stamp(reply.Int(2))).Token())
	n.gate.Asked(now)
}

// release gives the lock back at the server.
func (n *tenure) release(now clock.Instant) error {
	patience := n.patience(now)
	defer patience.End()
	return n.releaseWithin(patience, now, errs.ErrLost)
}

// releaseWithin gives the lock back at the server, and waits for that as long as patience
// lasts. The lease has ended here before. gone is the answer where the server says that the
// hold has the lock no more.
func (n *tenure) releaseWithin(patience context.Context, now clock.Instant, gone error) error {
	if err := n.stop(now); err != nil {
		return err
	}
	reply, err := n.lock.realm.Release.Run(patience, n.lock.keys(), n.releaseArgs()...)
	return n.released(now, reply, err, gone)
}

// stop ends the term of a tenure that is to be given back, or answers why that ended before.
func (n *tenure) stop(now clock.Instant) error {
	if err := n.Term.Stop(now); err != nil {
		return err // it was lost before it could be given back; Lost sees to the rest
	}
	n.gate.Vacate()
	return nil
}

// releaseArgs answers what the release script is told of the tenure.
func (n *tenure) releaseArgs() []string { return n.appendArgs(make([]string, 0, 5)) }

// appendArgs appends them.
func (n *tenure) appendArgs(to []string) []string {
	return append(to, n.held(), n.floor(), n.lock.verb(), n.lock.base.Names.Unlocked, n.lock.base.Floor)
}

// released ends a tenure whose release was answered, or was not. gone is the answer where the server says that the
// hold has the lock no more.
func (n *tenure) released(now clock.Instant, reply wire.Reply, err, gone error) error {
	var standBack clock.Instant
	switch {
	case err != nil:
		err = n.releaseLater(n.releaseArgs(), err)
	case reply.Int(0) == 0:
		err = gone
	case reply.Int(0) == 2:
		now = clock.Now()
		standBack = now.Add(gate.StandBack)
	}
	n.depart(now, standBack)
	return err
}

// releaseLater repeats a release that was not answered until it is, or the key has ended.
func (n *tenure) releaseLater(args []string, cause error) error {
	// A renewal may have been executed as late as now.
	ends := clock.Now().Add(n.Term.Terms().Life)
	n.lock.base.Session.Settler.Settle(&session.Settlement{
		Call:    wire.Call{Script: n.lock.scripts.Release, Keys: n.lock.keys(), Args: args},
		Until:   ends,
		Settled: func(wire.Reply) time.Duration { return 0 },
	})
	return &signalbox.UnconfirmedError{KeyEnds: ends.Time(), Err: cause}
}

// Lost implements hold.Home: the term ended under the holder. Where the key may be there still
// it is given back, so that others need not wait for its end.
func (n *tenure) Lost(_ error, taken bool) { //nolint:revive // a fact about the key, not a switch
	if !taken {
		n.lock.withdraw(n.id(), 0)
	}
	n.gate.Lost()
	n.lock.leave(n.gate, clock.Now())
}

// Evict implements gate.Tenant.
func (n *tenure) Evict(cause error) { n.lock.base.Evict(&n.Hold, cause) }

// Recheck implements gate.Tenant.
func (n *tenure) Recheck() { n.Term.Recheck() }

// depart ends the tenure after a release.
func (n *tenure) depart(now, standBack clock.Instant) {
	n.gate.Vacated(standBack)
	n.lock.leave(n.gate, now)
}

// patience answers how long a call about this hold is waited for.
func (n *tenure) patience(now clock.Instant) *session.Patience {
	return n.lock.base.Session.PatientUnlock(n.Term.Deadline().Until(now))
}

func (n *tenure) id() string { return n.Term.Terms().Hold }

// held answers what the key says while nobody waits.
func (n *tenure) held() string {
	text := make([]byte, 0, session.MaxHolder)
	text = append(n.stamp.Append(append(text, "sb1r"...)), n.id()...)
	return string(append(text, n.lock.base.Session.Tail()...))
}

// floor answers the stamp that is not before the last token used.
func (n *tenure) floor() string { return wire.StampOf(n.Token()).Text() }
