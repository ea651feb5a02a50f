// SPDX-License-Identifier: Apache-2.0

package multilock

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/observe"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/timers"
)

// For how long a call waits for a held member of one session while it holds members of another. It is doubled
// a random number of times, at most as often as there were rounds: now and then it is long enough for members
// that others hold for long, and of two callers that wait for each other one gives up soon.
const (
	shortPatience = 20 * time.Millisecond
	maxDoublings  = 6
)

// longestReply is how long a server has to reply whether a member is free, while members of another session
// are held: it may be far away, and other callers wait for those members meanwhile.
const longestReply = time.Second

func patienceIn(round int) time.Duration {
	p := shortPatience << rand.N(min(round, maxDoublings)+1)
	return p/2 + rand.N(p/2)
}

// errAgain ends the waiting of a round that gives others their chance, or has lost a member.
var errAgain = errors.New("another round is due")

func (l *Lock) lock(ctx context.Context) (hold.Lease, error) {
	if err := l.ready(ctx); err != nil {
		return hold.Lease{}, explain("lock", err)
	}
	call, ctx := l.ask(ctx)
	lease, err := l.rounds(ctx)
	return lease.Observe(call, err)
}

// ask reports that a call asks for the lock, and returns the context for its members, whose calls are parts of it: no observer
// is notified of those. The lock has the observer of its first member whose session has one.
func (l *Lock) ask(ctx context.Context) (*observe.Call, context.Context) {
	i := slices.IndexFunc(l.members, func(m one) bool { return m.place.Session.Settings.Observer != nil })
	if i < 0 {
		return nil, ctx
	}
	o := l.members[i].place.Session.Settings.Observer
	labels := observe.Labels{Kind: "multilock", Class: l.members[0].place.Class}
	for i := range l.members {
		if l.members[i].place.Class != labels.Class {
			labels.Class = ""
		}
	}
	if o.Names {
		labels.Name = strings.Join(l.Order(), ",")
	}
	return o.Begin(ctx, labels, false), observe.Quiet(ctx)
}

// rounds takes the members, in as many rounds as it needs.
func (l *Lock) rounds(ctx context.Context) (hold.Lease, error) {
	first := 0
	for n := 0; ; n++ {
		r := l.round(ctx, first, patienceIn(n))
		if r.err == nil || !r.again {
			return r.lease, r.err
		}
		if ctx.Err() != nil {
			return hold.Lease{}, endedAfter(ctx, r.err)
		}
		first = r.blocked
	}
}

// endedAfter returns the error of a context that ended after a round had, by an error that is not exported.
// It names the member that the round came to, with the last reply about that.
func endedAfter(ctx context.Context, last error) error {
	err, name := errs.Ended(ctx), ""
	if errors.Is(last, errs.ErrHeld) {
		err = errs.WhileHeld(err)
	}
	if of := new(signalbox.OpError); errors.As(last, &of) {
		name = of.Name
	}
	return &signalbox.OpError{Op: "lock", Name: name, Err: err}
}

// round is what came of taking the members once.
type round struct {
	lease   hold.Lease
	err     error
	again   bool // nothing but the round has failed
	blocked int  // which session it came to
}

// round acquires the members, and releases what it acquired if it cannot have all.
func (l *Lock) round(ctx context.Context, first int, patience time.Duration) (r round) {
	g := newGroup(l)
	until, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	g.mu.stop = stop
	if r.blocked, r.err = g.gather(until, first, patience); r.err == nil {
		if r.lease, r.err = g.begin(); r.err == nil {
			return r
		}
		r.again = true // a member was lost, and is to be had again
	}
	r.again = r.again || errors.Is(context.Cause(until), errAgain)
	r.lease = hold.Lease{}
	g.releaseWithin(ctx)
	return r
}

func (l *Lock) tryLock(ctx context.Context) (hold.Lease, error) {
	if err := l.ready(ctx); err != nil {
		return hold.Lease{}, explain("try lock", err)
	}
	call, ctx := l.ask(ctx)
	lease, err := l.tryMembers(ctx)
	return lease.Observe(call, err)
}

// tryMembers takes the members without waiting.
func (l *Lock) tryMembers(ctx context.Context) (hold.Lease, error) {
	g := newGroup(l)
	err := g.try(ctx)
	if err == nil {
		var lease hold.Lease
		if lease, err = g.begin(); err == nil {
			return lease, nil
		}
	}
	g.releaseWithin(ctx)
	return hold.Lease{}, err
}

// gather acquires the members, those of the first session first. It waits for these as long as ctx allows,
// since it holds none of another session then, and for the others only for a limited time. It returns the
// session that it came to.
func (g *group) gather(ctx context.Context, first int, patience time.Duration) (blocked int, err error) {
	parties := g.lock.parties
	if err = g.gatherParty(ctx, parties[first], nil); err != nil {
		return first, err
	}
	for i, party := range parties {
		if i == first {
			continue
		}
		limit := &limit{stop: g.mu.stop, patience: patience, timers: party[0].place.Session.Timers}
		limit.entry.Init(limit)
		err = g.gatherParty(ctx, party, limit)
		limit.timers.Cancel(&limit.entry)
		if err != nil {
			return i, err
		}
	}
	return first, nil
}

// limit ends a round. Where it is nil nothing does.
type limit struct {
	entry    timers.Entry
	stop     context.CancelCauseFunc
	patience time.Duration
	timers   *timers.Timers
}

// Fire implements timers.Event.
func (t *limit) Fire() { t.stop(errAgain) }

// take takes o and those behind it if they are free, and waits for o, with patience, if it is not: a way that is longer than the
// patience must not end every round.
func (t *limit) take(ctx context.Context, o *one, behind []one) ([]hold.Lease, error) {
	if t == nil {
		return o.take(ctx, behind)
	}
	t.timers.Schedule(&t.entry, longestReply)
	leases, tried := o.try(ctx, behind)
	if tried == nil {
		return leases, nil
	}
	t.timers.Schedule(&t.entry, t.patience)
	leases, err := o.take(ctx, behind)
	if err != nil && ctx.Err() != nil && errors.Is(tried, errs.ErrHeld) {
		err = stillHeld(err)
	}
	return leases, err
}

// stillHeld adds to the error of a wait, which may have ended before a reply, the reply to the try before it.
func stillHeld(err error) error {
	if errors.Is(err, errs.ErrHeld) {
		return err
	}
	if of := new(signalbox.OpError); errors.As(err, &of) {
		return &signalbox.OpError{Op: of.Op, Name: of.Name, Err: errs.WhileHeld(of.Err)}
	}
	return errs.WhileHeld(err)
}

// gatherParty acquires members of one session, in order: while it waits for one it holds only earlier members
// of this session.
func (g *group) gatherParty(ctx context.Context, party []one, limit *limit) error {
	for len(party) > 0 {
		leases, err := limit.take(ctx, &party[0], party[1:])
		if err != nil {
			return explainFor("lock", party[0].place.Name, err)
		}
		party = g.add(party, leases)
	}
	return nil
}

// try takes the members without waiting, in order.
func (g *group) try(ctx context.Context) error {
	for rest := g.lock.members; len(rest) > 0; {
		leases, err := rest[0].try(ctx, rest[1:])
		if err != nil {
			return explainFor("try lock", rest[0].place.Name, err)
		}
		rest = g.add(rest, leases)
	}
	return nil
}

// take takes o, and those behind it that are to be had in the same step.
func (o *one) take(ctx context.Context, behind []one) ([]hold.Lease, error) {
	if o.place.Gatherer != nil {
		return o.place.Gatherer.Gather(ctx, gatherers(behind))
	}
	lease, err := o.Lock(ctx)
	return []hold.Lease{hold.Lease(lease)}, err
}

// try is take without waiting.
func (o *one) try(ctx context.Context, behind []one) ([]hold.Lease, error) {
	if o.place.Gatherer != nil {
		return o.place.Gatherer.TryGather(ctx, gatherers(behind))
	}
	lease, err := o.TryLock(ctx)
	return []hold.Lease{hold.Lease(lease)}, err
}

// gatherers returns those that may be taken in one step with the one before them: up to the first that is always
// taken alone, so that the order is kept.
func gatherers(behind []one) []session.Gatherer {
	var together []session.Gatherer
	for i := range behind {
		if behind[i].place.Gatherer == nil {
			break
		}
		together = append(together, behind[i].place.Gatherer)
	}
	return together
}
