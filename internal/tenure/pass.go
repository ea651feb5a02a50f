// SPDX-License-Identifier: Apache-2.0

package tenure

import (
	"context"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/gate"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/line"
	"github.com/signalbox-go/signalbox/internal/relay"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// Passing is how holds of one kind are passed on inside the process.
type Passing struct {
	// Relays are where those wait that holds are passed on to.
	Relays *relay.Table
	// Yield asks whether a hold may go on so; see line.Attempt.Yield.
	Yield *scripts.Script
}

// passFor is for how long a hold is passed on before the server is asked whether others wait. The other bound is its block
// of tokens.
const passFor = gate.MaxTime

// passes reports whether what l takes is passed on.
func (l *Lock) passes() bool { return l.Kind.Passing != nil && l.Wish.Like != "" }

// takeHere waits among those of this process until a hold is passed on, or granted, to the caller.
func (l *Lock) takeHere(ctx context.Context) (hold.Lease, error) {
	if err := l.Base.Session.Begin(); err != nil {
		return hold.Lease{}, err
	}
	defer l.Base.Session.End() // what it gets is counted on its own
	relays := l.Kind.Passing.Relays
	r := relays.Use(l.Keys.Holder)
	defer relays.Done(r)
	return r.Take(ctx, l.Wish.Like, l)
}

// Refuse implements session.Part.
func (k *Kind) Refuse(err error) {
	if k.Passing != nil {
		k.Passing.Relays.Refuse(err)
	}
	k.Source.Refuse(err)
}

// Ready implements relay.Line.
func (l *Lock) Ready() error { return l.Base.Session.Ready() }

// Place implements relay.Line.
func (l *Lock) Place() (relay.Place, error) {
	c, err := l.Stand()
	if err != nil {
		return nil, err
	}
	return c, nil
}

// entrance is a Place in a line.
type entrance interface {
	// Enter returns when it stands in line, or was granted the lock, or answers why it is neither.
	Enter(ctx context.Context) (granted bool, err error)
}

// Enter implements relay.Place. Where there is no line the candidate waits until it is granted the lock.
func (c *Candidate) Enter(ctx context.Context) (granted bool, err error) {
	if p, is := c.place.(entrance); is {
		return p.Enter(ctx)
	}
	err = c.place.Wait(ctx)
	return err == nil, err
}

// Leave implements relay.Place.
func (c *Candidate) Leave() {
	if a := c.place.Leave(); a != nil {
		a.Abandon()
	}
	c.lock.leave(c.queue)
}

// yielder is an Attempt that can be asked about.
type yielder interface {
	// Yield asks by script whether the hold may go on; see line.Attempt.Yield.
	Yield(ctx context.Context, script *scripts.Script) (line.Fate, error)
}

// Give implements relay.Giver.
func (n *tenure) Give(now clock.Instant) (hold.Lease, bool) {
	if now.Mono()-n.since.Mono() >= passFor || n.lock.Base.Session.Ready() != nil {
		return hold.Lease{}, false
	}
	return n.Pass(now)
}

// yield asks the server whether the hold may be passed on further, which gives it back where others wait for it.
func (n *tenure) yield(sent clock.Instant) error {
	l := n.lock
	patience := n.patience(sent)
	defer patience.End()
	a, is := n.attempt.(yielder)
	if !is {
		return n.releaseWithin(patience, sent, errs.ErrLost)
	}
	fate, err := a.Yield(patience, l.Kind.Passing.Yield)
	now := clock.Now()
	switch {
	case err != nil && wire.Judge(err) == wire.Unknown:
		// The lease was unlocked in time. If the hold is gone, this question gave it back, and only the answer was lost.
		return n.releaseWithin(patience, now, nil)
	case err != nil:
		return n.releaseWithin(patience, now, errs.ErrLost)
	case fate == line.Gone:
		n.Term.Gone()
		return errs.ErrLost
	case fate == line.GivenBack:
		if n.Term.Stop(now) == nil {
			n.over()
		}
		return nil // given back in time, whatever the clock says by now
	}
	if grant := n.attempt.Grant(); n.Term.Extended(grant.Life, grant.Sent) {
		n.Refill(grant.Stamp.Token(), grant.Last.LastToken())
		n.since = grant.Read
		if n.relay.Pass(now, l.Wish.Like, n) == relay.Passed {
			return nil
		}
	}
	// Nobody waits any more; or it ended while the question was on its way, and Lost sees to it.
	return n.releaseWithin(patience, now, errs.ErrLost)
}
