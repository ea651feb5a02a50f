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
func (l *Acquirer) BatchKey() session.BatchKey {
	if l.Manager.ReleaseMany == nil {
		return session.BatchKey{}
	}
	return session.BatchKey{Session: l.Base.Session, Node: l.Base.Session.NodeID(l.Keys.Slot), Layout: l.Base.Layout}
}

// Batch implements session.Returner.
func (n *heldLock) BatchKey() session.BatchKey { return n.acquirer.BatchKey() }

// together acquires locks of one kind in order by one call, as far as they are free and no goroutine of this
// session waits before the caller. If it cannot begin one hold, it keeps neither that one nor those behind.
// The error is that of the call.
func acquireTogether(ctx context.Context, batch []*Acquirer) (leases []hold.Lease, err error) {
	all, asked := make([]tryCall, 0, len(batch)), make([]queue.LockRequest, 0, len(batch))
	for _, l := range batch {
		e, err := l.beginTry()
		if err != nil {
			break
		}
		of := e.queue.(queueAdapter).Queue //nolint:errcheck,forcetypeassert // a kind with Gather has a queue at the server
		all, asked = append(all, e), append(asked, queue.LockRequest{Queue: of, Request: l.Request})
	}
	var attempts []*queue.Attempt
	if len(all) > 1 {
		attempts, err = queue.AcquireMany(ctx, batch[0].Manager.AcquireMany, asked)
	}
	for i, e := range all {
		hasHold := false
		if i < len(attempts) {
			if len(leases) < i {
				attempts[i].Abandon()
			} else if lease, err := e.acquirer.beginHold(ctx, e.queue, attemptAdapter{attempts[i]}, 0); err == nil {
				leases, hasHold = append(leases, lease), true
			}
		}
		e.end(hasHold)
	}
	return leases, err
}

// returned is a hold that is released together with others, and the destination of its error.
type manyRelease struct {
	queue.LockRelease

	lock   *heldLock
	result *error
}

// Return implements session.Returner: holds that goroutines of this process wait for are handed over, and the others are
// released in one step.
func (n *heldLock) ReleaseMany(now clock.Instant, others []session.ManyReleaser) []error {
	results := make([]error, 1+len(others))
	var spent, given []*manyRelease
	for i := range results {
		m := n
		if i > 0 {
			m = others[i-1].(*heldLock) //nolint:errcheck,forcetypeassert // those of one batch have one type
		}
		r := &manyRelease{lock: m, result: &results[i]}
		verdict := local.NoWaiter
		if m.localQueue != nil {
			verdict = m.localQueue.HandOver(now, m.acquirer.Request.ShareKey, m)
		}
		switch verdict {
		case local.HandedOver:
		case local.Refused:
			spent = append(spent, r)
		case local.NoWaiter:
			if results[i] = m.Term.Stop(now); results[i] == nil {
				given = append(given, r)
			}
		}
	}
	n.releaseTogether(now, given)
	for _, r := range spent {
		*r.result = r.lock.endTurn(now)
	}
	return results
}

// scatter releases holds whose terms have stopped.
func (n *heldLock) releaseTogether(now clock.Instant, given []*manyRelease) {
	if len(given) == 0 {
		return
	}
	left, all := time.Duration(math.MaxInt64), make([]*queue.LockRelease, len(given))
	for i, r := range given {
		m := r.lock
		left = min(left, m.Term.Deadline().Until(now))
		of := m.serverHold.(attemptAdapter).Attempt //nolint:errcheck,forcetypeassert // a kind with Scatter has a queue at the server
		r.LockRelease = queue.LockRelease{Attempt: of, LastUsed: m.lastUsed(), ExpiresIn: m.serverLife}
		all[i] = &r.LockRelease
	}
	patience := n.acquirer.Base.Session.PatientUnlock(left)
	defer patience.End()
	queue.ReleaseMany(patience, n.acquirer.Manager.ReleaseMany, all)
	for _, r := range given {
		*r.result = r.lock.releaseError(r.WasHeld, r.Err, errs.ErrLostGone)
		r.lock.finish()
	}
}
