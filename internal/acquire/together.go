// SPDX-License-Identifier: Apache-2.0

package acquire

import (
	"context"
	"math"
	"time"

	"github.com/signalbox-go/signalbox/internal/acquire/local"
	"github.com/signalbox-go/signalbox/internal/acquire/queue"
	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/session"
)

// Batch implements session.Returner. It is the zero Batch if holds of the kind are released one by one.
func (l *Lock) BatchKey() session.BatchKey {
	if l.Kind.Scatter == nil {
		return session.BatchKey{}
	}
	return session.BatchKey{Session: l.Base.Session, Node: l.Base.Session.NodeID(l.Keys.Slot), Layout: l.Base.Layout}
}

// Batch implements session.Returner.
func (n *held) BatchKey() session.BatchKey { return n.lock.BatchKey() }

// together acquires locks of one kind in order by one call, as far as they are free and no goroutine of this
// session waits before the caller. If it cannot begin one hold, it keeps neither that one nor those behind.
// The error is that of the call.
func together(ctx context.Context, batch []*Lock) (leases []hold.Lease, err error) {
	all, asked := make([]entered, 0, len(batch)), make([]queue.LockRequest, 0, len(batch))
	for _, l := range batch {
		e, err := l.enter()
		if err != nil {
			break
		}
		of := e.queue.(waiting).Queue //nolint:errcheck,forcetypeassert // a kind with Gather has a queue at the server
		all, asked = append(all, e), append(asked, queue.LockRequest{Queue: of, Request: l.Request})
	}
	var attempts []*queue.Attempt
	if len(all) > 1 {
		attempts, err = queue.AcquireMany(ctx, batch[0].Kind.Gather, asked)
	}
	for i, e := range all {
		hasHold := false
		if i < len(attempts) {
			if len(leases) < i {
				attempts[i].Abandon()
			} else if lease, err := e.lock.begin(ctx, e.queue, attempt{attempts[i]}, 0); err == nil {
				leases, hasHold = append(leases, lease), true
			}
		}
		e.left(hasHold)
	}
	return leases, err
}

// returned is a hold that is released together with others, and the destination of its error.
type returned struct {
	queue.LockRelease

	held   *held
	result *error
}

// Return implements session.Returner: holds that goroutines of this process wait for are handed over, and the others are
// released in one step.
func (n *held) ReleaseMany(now clock.Instant, others []session.ManyReleaser) []error {
	results := make([]error, 1+len(others))
	var spent, given []*returned
	for i := range results {
		m := n
		if i > 0 {
			m = others[i-1].(*held) //nolint:errcheck,forcetypeassert // those of one batch have one type
		}
		r := &returned{held: m, result: &results[i]}
		verdict := local.Unwanted
		if m.local != nil {
			verdict = m.local.Pass(now, m.lock.Request.ShareKey, m)
		}
		switch verdict {
		case local.Passed:
		case local.Refused:
			spent = append(spent, r)
		case local.Unwanted:
			if results[i] = m.Term.Stop(now); results[i] == nil {
				given = append(given, r)
			}
		}
	}
	n.scatter(now, given)
	for _, r := range spent {
		*r.result = r.held.spent(now)
	}
	return results
}

// scatter releases holds whose terms have stopped.
func (n *held) scatter(now clock.Instant, given []*returned) {
	if len(given) == 0 {
		return
	}
	left, all := time.Duration(math.MaxInt64), make([]*queue.LockRelease, len(given))
	for i, r := range given {
		m := r.held
		left = min(left, m.Term.Deadline().Until(now))
		of := m.attempt.(attempt).Attempt //nolint:errcheck,forcetypeassert // a kind with Scatter has a queue at the server
		r.LockRelease = queue.LockRelease{Attempt: of, LastUsed: m.used(), ExpiresIn: m.lasts}
		all[i] = &r.LockRelease
	}
	patience := n.lock.Base.Session.PatientUnlock(left)
	defer patience.End()
	queue.ReleaseMany(patience, n.lock.Kind.Scatter, all)
	for _, r := range given {
		*r.result = r.held.released(r.WasHeld, r.Err, errs.ErrLostGone)
		r.held.over()
	}
}
