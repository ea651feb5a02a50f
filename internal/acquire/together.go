// SPDX-License-Identifier: Apache-2.0

package acquire

import (
	"context"
	"time"

	"github.com/signalbox-go/signalbox/internal/acquire/queue"
	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/handoff"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// Lot implements session.Returner. It is the zero Lot if holds of the kind are released one by one.
func (l *Lock) Lot() session.Lot {
	if l.Kind.Scatter == nil {
		return session.Lot{}
	}
	return session.Lot{Session: l.Base.Session, Slot: l.Base.Slot, Layout: l.Base.Layout}
}

// Lot implements session.Returner.
func (n *tenure) Lot() session.Lot { return n.lock.Lot() }

// entered is a lock that the caller may ask the server for.
type entered struct {
	lock  *Lock
	local *handoff.Queue
	queue Queue
}

// enter counts the caller in, unless goroutines of this session are before it.
func (l *Lock) enter() (e entered, ok bool) {
	queues := l.Kind.Passing.Queues
	e = entered{lock: l, local: queues.Use(l.Keys.Holder)}
	if e.local.Try(l.Wish.Like) {
		if l.Base.Session.Begin() == nil {
			e.queue = l.Kind.Use(&l.Keys)
			return e, true
		}
		e.local.Tried(l.Wish.Like)
	}
	queues.Done(e.local)
	return e, false
}

// left counts the caller out. What it got is counted on its own.
func (e entered) left(hasHold bool) { //nolint:revive // a fact, not a switch
	if !hasHold {
		e.lock.leave(e.queue)
	}
	e.local.Tried(e.lock.Wish.Like)
	e.lock.Kind.Passing.Queues.Done(e.local)
}

// Together takes locks in order by one call of take, as far as they are free and no goroutine of this session is before
// the caller: of a hold that it cannot begin, and of those behind, it keeps none. The error is that of take.
func Together(
	ctx context.Context, lot []*Lock, take func(context.Context, []Queue, []*queue.Wish) ([]Attempt, error),
) (leases []hold.Lease, err error) {
	all := make([]entered, 0, len(lot))
	queues, wishes := make([]Queue, 0, len(lot)), make([]*queue.Wish, 0, len(lot))
	for _, l := range lot {
		e, ok := l.enter()
		if !ok {
			break
		}
		all, queues, wishes = append(all, e), append(queues, e.queue), append(wishes, l.Wish)
	}
	var attempts []Attempt
	if len(all) > 1 {
		attempts, err = take(ctx, queues, wishes)
	}
	for i, e := range all {
		hasHold := false
		if i < len(attempts) {
			if len(leases) < i {
				attempts[i].Abandon()
			} else if lease, err := e.lock.begin(ctx, e.queue, attempts[i]); err == nil {
				leases, hasHold = append(leases, lease), true
			}
		}
		e.left(hasHold)
	}
	return leases, err
}

// Release is a hold that is released together with others, and what became of that; see Attempt.
type Release struct {
	Attempt Attempt
	Used    wire.Stamp
	Lasts   time.Duration
	Had     bool
	Err     error

	tenure *tenure
	answer *error
}

// Return implements session.Returner: holds that goroutines of this process wait for are handed over, and the others are
// released in one step.
func (n *tenure) Return(now clock.Instant, others []session.Returner) []error {
	answers := make([]error, 1+len(others))
	var spent, given []*Release
	for i := range answers {
		m := n
		if i > 0 {
			m = others[i-1].(*tenure) //nolint:errcheck,forcetypeassert // those of one lot are of one type
		}
		r := &Release{Attempt: m.attempt, Lasts: m.lasts, tenure: m, answer: &answers[i]}
		verdict := handoff.Unwanted
		if m.local != nil {
			verdict = m.local.Pass(now, m.lock.Wish.Like, m)
		}
		switch verdict {
		case handoff.Passed:
		case handoff.Refused:
			spent = append(spent, r)
		case handoff.Unwanted:
			if answers[i] = m.Term.Stop(now); answers[i] == nil {
				r.Used = m.used()
				given = append(given, r)
			}
		}
	}
	n.scatter(now, given)
	for _, r := range spent {
		*r.answer = r.tenure.spent(now)
	}
	return answers
}

// scatter releases holds whose terms have stopped.
func (n *tenure) scatter(now clock.Instant, all []*Release) {
	if len(all) == 0 {
		return
	}
	left := all[0].tenure.Term.Deadline().Until(now)
	for _, r := range all {
		left = min(left, r.tenure.Term.Deadline().Until(now))
	}
	patience := n.lock.Base.Session.PatientUnlock(left)
	defer patience.End()
	n.lock.Kind.Scatter(patience, all)
	for _, r := range all {
		*r.answer = r.tenure.released(r.Had, r.Err, errs.ErrLost)
		r.tenure.over()
	}
}
