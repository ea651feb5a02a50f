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

func patienceOf(round int) time.Duration {
	p := shortPatience << rand.N(min(round, maxDoublings)+1)
	return p/2 + rand.N(p/2)
}

// errNextRound ends the waiting of a round that lets other callers go first, or has lost a member.
var errNextRound = errors.New("another round is due")

func (l *Lock) lock(ctx context.Context) (hold.Lease, error) {
	if err := l.validate(ctx); err != nil {
		return hold.Lease{}, explain("lock", err)
	}
	call, ctx := l.beginCall(ctx)
	lease, err := l.acquireInRounds(ctx)
	return lease.Observe(call, err)
}

// beginCall reports to the observer that a call requests the lock, and returns the context for the calls of the members, which
// no observer is notified of. The observer is that of the first member whose session has one.
func (l *Lock) beginCall(ctx context.Context) (*observe.Call, context.Context) {
	i := slices.IndexFunc(l.members, func(m orderedMember) bool { return m.position.Session.Settings.Observer != nil })
	if i < 0 {
		return nil, ctx
	}
	o := l.members[i].position.Session.Settings.Observer
	labels := observe.Labels{Kind: "multilock", Class: l.members[0].position.Class}
	for i := range l.members {
		if l.members[i].position.Class != labels.Class {
			labels.Class = ""
		}
	}
	if o.Names {
		labels.Name = strings.Join(l.Order(), ",")
	}
	return o.Begin(ctx, labels, false), observe.Quiet(ctx)
}

// acquireInRounds acquires the members, in as many rounds as it needs.
func (l *Lock) acquireInRounds(ctx context.Context) (hold.Lease, error) {
	first := 0
	for n := 0; ; n++ {
		r := l.acquireOnce(ctx, first, patienceOf(n))
		if r.err == nil || !r.retry {
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

// roundResult is the result of one round: of acquiring the members once.
type roundResult struct {
	lease   hold.Lease
	err     error
	retry   bool // the next round may succeed: nothing but this one has failed
	blocked int  // the session, by its index, whose members the round acquired last
}

// acquireOnce acquires the members, and releases what it acquired if it cannot have all.
func (l *Lock) acquireOnce(ctx context.Context, first int, patience time.Duration) (r roundResult) {
	h := newMemberHolds(l)
	until, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	h.mu.stop = stop
	if r.blocked, r.err = h.acquireAll(until, first, patience); r.err == nil {
		if r.lease, r.err = h.begin(); r.err == nil {
			return r
		}
		r.retry = true // a member was lost, and is acquired again
	}
	r.retry = r.retry || errors.Is(context.Cause(until), errNextRound)
	r.lease = hold.Lease{}
	h.releaseWithin(ctx)
	return r
}

func (l *Lock) tryLock(ctx context.Context) (hold.Lease, error) {
	if err := l.validate(ctx); err != nil {
		return hold.Lease{}, explain("try lock", err)
	}
	call, ctx := l.beginCall(ctx)
	lease, err := l.tryAcquireAll(ctx)
	return lease.Observe(call, err)
}

// tryAcquireAll acquires the members without waiting.
func (l *Lock) tryAcquireAll(ctx context.Context) (hold.Lease, error) {
	h := newMemberHolds(l)
	err := h.tryAcquire(ctx)
	if err == nil {
		var lease hold.Lease
		if lease, err = h.begin(); err == nil {
			return lease, nil
		}
	}
	h.releaseWithin(ctx)
	return hold.Lease{}, err
}

// acquireAll acquires the members, those of the first session first. It waits for these as long as ctx allows,
// since it holds no member of another session then, and for the others only for a limited time. It returns the
// session whose members it acquired last.
func (h *memberHolds) acquireAll(ctx context.Context, first int, patience time.Duration) (blocked int, err error) {
	sessions := h.lock.bySession
	if err = h.acquireOfSession(ctx, sessions[first], nil); err != nil {
		return first, err
	}
	for i, members := range sessions {
		if i == first {
			continue
		}
		timeout := &roundTimeout{cancel: h.mu.stop, patience: patience, timers: members[0].position.Session.Timers}
		timeout.timer.Init(timeout)
		err = h.acquireOfSession(ctx, members, timeout)
		timeout.timers.Cancel(&timeout.timer)
		if err != nil {
			return i, err
		}
	}
	return first, nil
}

// roundTimeout ends a round. If it is nil, the round has no time limit.
type roundTimeout struct {
	timer    timers.Timer
	cancel   context.CancelCauseFunc
	patience time.Duration
	timers   *timers.Timers
}

// Fire ends the round. The timer calls it.
func (t *roundTimeout) Fire() { t.cancel(errNextRound) }

// acquire acquires o and the members after it if they are free, and waits for o, with patience, if it is not. The reply whether o
// is free has a limit of its own: a round trip that is longer than the patience must not end every round.
func (t *roundTimeout) acquire(ctx context.Context, o *orderedMember, following []orderedMember) ([]hold.Lease, error) {
	if t == nil {
		return o.acquire(ctx, following)
	}
	t.timers.Schedule(&t.timer, longestReply)
	leases, tried := o.tryAcquire(ctx, following)
	if tried == nil {
		return leases, nil
	}
	t.timers.Schedule(&t.timer, t.patience)
	leases, err := o.acquire(ctx, following)
	if err != nil && ctx.Err() != nil && errors.Is(tried, errs.ErrHeld) {
		err = whileHeld(err)
	}
	return leases, err
}

// whileHeld adds to the error of a wait, which may have ended before a reply, the reply to the attempt before it.
func whileHeld(err error) error {
	if errors.Is(err, errs.ErrHeld) {
		return err
	}
	if of := new(signalbox.OpError); errors.As(err, &of) {
		return &signalbox.OpError{Op: of.Op, Name: of.Name, Err: errs.WhileHeld(of.Err)}
	}
	return errs.WhileHeld(err)
}

// acquireOfSession acquires members of one session, in order: while it waits for one it holds only earlier members
// of this session.
func (h *memberHolds) acquireOfSession(ctx context.Context, members []orderedMember, timeout *roundTimeout) error {
	for len(members) > 0 {
		leases, err := timeout.acquire(ctx, &members[0], members[1:])
		if err != nil {
			return explainFor("lock", members[0].position.Name, err)
		}
		members = h.add(members, leases)
	}
	return nil
}

// tryAcquire acquires the members without waiting, in order.
func (h *memberHolds) tryAcquire(ctx context.Context) error {
	for rest := h.lock.members; len(rest) > 0; {
		leases, err := rest[0].tryAcquire(ctx, rest[1:])
		if err != nil {
			return explainFor("try lock", rest[0].position.Name, err)
		}
		rest = h.add(rest, leases)
	}
	return nil
}

// acquire acquires o, and the members after it that can be acquired by the same script.
func (o *orderedMember) acquire(ctx context.Context, following []orderedMember) ([]hold.Lease, error) {
	if o.position.Acquirer != nil {
		return o.position.Acquirer.AcquireMany(ctx, multiAcquirers(following))
	}
	lease, err := o.Lock(ctx)
	return []hold.Lease{hold.Lease(lease)}, err
}

// tryAcquire is acquire without waiting.
func (o *orderedMember) tryAcquire(ctx context.Context, following []orderedMember) ([]hold.Lease, error) {
	if o.position.Acquirer != nil {
		return o.position.Acquirer.TryAcquireMany(ctx, multiAcquirers(following))
	}
	lease, err := o.TryLock(ctx)
	return []hold.Lease{hold.Lease(lease)}, err
}

// multiAcquirers returns the members that one script may acquire together with the one before them: up to the first that is always
// acquired alone, so that the order is kept.
func multiAcquirers(following []orderedMember) []session.ManyAcquirer {
	var together []session.ManyAcquirer
	for i := range following {
		if following[i].position.Acquirer == nil {
			break
		}
		together = append(together, following[i].position.Acquirer)
	}
	return together
}
