// SPDX-License-Identifier: Apache-2.0

package acquire

import (
	"context"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/queue"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/waitroom"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// heldLock is the lock held by this process, from the grant to the release. It implements hold.Owner.
//
// Exactly one of OnRelease and OnLost ends it: OnRelease continues only if it stopped the term, and a stopped term
// does not report its end.
type heldLock struct {
	hold.Hold

	acquirer   *Acquirer
	serverHold queue.Hold

	localQueue *waitroom.Room // the queue of the goroutines of the process; nil if they have tickets of their own
	// turnEnds is when the hold is handed over no more, on the monotonic clock. Only the goroutine that begins or releases
	// the hold writes it; these goroutines follow each other, ordered by the lock of the queue.
	turnEnds time.Duration
}

// Key implements hold.Owner.
func (h *heldLock) Key() string { return h.acquirer.Names.Holder }

// ID implements hold.Owner.
func (h *heldLock) ID() string { return h.acquirer.Manager.RenewalName(h.serverHold) }

// OnRelease implements hold.Owner: the last lease was unlocked.
func (h *heldLock) OnRelease(now timers.Instant) error {
	switch h.handOver(now) {
	case waitroom.HandedOver, waitroom.Kept:
		return nil
	case waitroom.Refused:
		return h.endTurn(now)
	default:
		return h.release(now)
	}
}

func (h *heldLock) release(now timers.Instant) error {
	patience := h.patience(now)
	defer patience.End()
	return h.releaseWithin(patience, now, errs.ErrLostGone)
}

// serverLife returns how long the server may keep the hold after a renewal, or after the grant.
func (h *heldLock) serverLife() time.Duration {
	return max(h.Term.Config().Life, h.serverHold.Grant().Life)
}

func (h *heldLock) lastUsed() wire.Stamp { return wire.StampOf(h.Token()) }

// releaseWithin releases the hold, and waits for the reply as long as patience lasts. It returns gone if the
// server replies that the hold no longer exists.
func (h *heldLock) releaseWithin(patience context.Context, now timers.Instant, gone error) error {
	if err := h.Term.Stop(now); err != nil {
		return err // it was lost before it could be released; OnLost does the rest
	}
	defer h.finish()
	// A renewal may have been executed as late as now: the hold ends after serverLife at the latest.
	wasHeld, err := h.serverHold.Release(patience, h.lastUsed(), h.serverLife())
	if attempt, isQueued := h.serverHold.(*queue.Attempt); isQueued && attempt.WasWantedInVain() {
		h.acquirer.Manager.recalls.add(h.acquirer.Names.Holder)
	}
	return h.releaseError(wasHeld, err, gone)
}

// releaseError returns the error of a release: gone if the server says that the hold had the lock no more.
func (h *heldLock) releaseError(wasHeld bool, err, gone error) error {
	switch {
	case err != nil:
		return h.acquirer.Base.Unconfirmed(timers.Now().Add(h.serverLife()), err)
	case !wasHeld:
		return gone
	}
	return nil
}

// patience returns how long a call about this hold is waited for.
func (h *heldLock) patience(now timers.Instant) *session.Patience {
	return h.acquirer.Base.Session.PatientUnlock(h.Term.Deadline().Until(now))
}

// OnLost implements hold.Owner: the term ended under the holder. If the hold may still exist it is released, so
// that the next waiter need not wait until it expires.
func (h *heldLock) OnLost(end hold.End) {
	h.acquirer.Base.LogLost(end)
	if h.acquirer.Request.KeepFor > 0 && h.localQueue.Forget(h) && end.Gone && !end.Leased {
		h.acquirer.Base.Session.Logs.LostIdle(h.acquirer.Base.Labels())
	}
	h.serverHold.Abandon()
	h.finish()
}

func (h *heldLock) finish() {
	h.leaveLocal()
	h.serverHold.Done()
}

// leaveLocal counts the hold out of the queue of this process.
func (h *heldLock) leaveLocal() {
	if h.localQueue != nil {
		if h.acquirer.Request.KeepFor > 0 {
			h.localQueue.Forget(h)
		}
		h.localQueue.HoldEnded(h.acquirer.Request.ShareKey)
		h.localQueue.Done(h.acquirer.Names.Holder)
	}
}

// OnWanted implements queue.WantedHold.
func (h *heldLock) OnWanted() { h.Hold.SetWanted() }

// LearnsOfWaiters implements hold.WantedOwner.
func (h *heldLock) LearnsOfWaiters() bool { return h.acquirer.Request.Wanted }

// Named implements hold.Namer.
func (h *heldLock) Named(op string, err error) error { return h.acquirer.Base.Named(op, err) }

// Superseded implements session.LocalHold.
func (h *heldLock) Superseded() { h.Term.Gone() }

// Evict implements session.LocalHold.
func (h *heldLock) Evict(cause error) { h.acquirer.Base.Evict(&h.Hold, cause) }

// Recheck implements session.LocalHold.
func (h *heldLock) Recheck() { h.Term.Recheck() }

// Swap ends the hold of lease and returns the first lease of a hold with the request of a, by which script replaced
// it in one step. The lease must be the only entry of its hold and bound to nothing but an observed call. The new hold
// has a term of its own, but keeps an end that the old one had. Swap waits as long as the old hold lasts. If
// it fails, both holds are released in the background.
func (a *Acquirer) Swap(lease hold.Lease, script *scripts.Script) (hold.Lease, error) {
	h, is := lease.Owner().(*heldLock)
	if !is {
		return hold.Lease{}, errs.ErrNotHeld
	}
	now := timers.Now()
	if err := h.Term.Stop(now); err != nil {
		return hold.Lease{}, err // it was lost before; OnLost does the rest
	}
	patience := a.Base.Session.Patient(h.Term.Deadline().Until(now))
	defer patience.End()
	request, until := *a.Request, h.Term.Config().Until
	request.Life = max(request.Life, h.Term.Given()) // the new hold is no shorter either, if the old one was renewed
	if !until.IsZero() {
		request.Life = min(request.Life, until.Until(now)) // the new hold lasts no longer than the old one would have
	}
	next, err := h.serverHold.Swap(patience, script, &request)
	if err != nil {
		h.serverHold.Abandon()
		h.finish()
		err = errs.Join(errs.ErrLostGone, err)
		lease.ReplaceFailed(err)
		return hold.Lease{}, err
	}
	h.leaveLocal()
	q := a.Manager.LocalQueues.Use(a.Names.Holder)
	defer q.Done(a.Names.Holder)
	replaced := a.startHold(new(heldLock), q, next, until, 0) // which the session counts in the place of h
	replaced.Replace(lease)
	return replaced, nil
}
