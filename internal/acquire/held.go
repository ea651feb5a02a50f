// SPDX-License-Identifier: Apache-2.0

package acquire

import (
	"context"
	"time"

	"github.com/signalbox-go/signalbox/internal/acquire/local"
	"github.com/signalbox-go/signalbox/internal/acquire/queue"
	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/renewal"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// held is the lock held by this process, from the grant to the release. It implements hold.Home.
//
// Exactly one of Vacated and Lost ends it: Vacated continues only if it stopped the term, and a stopped term
// does not report its end.
type heldLock struct {
	hold.Hold

	acquirer   *Acquirer
	queue      queue.Requester
	serverHold queue.ServerHold
	serverLife time.Duration // for how long the server may keep the hold after a renewal, or after the grant

	localQueue *local.Queue // in which goroutines of the process wait for it; nil if they have tickets of their own
	// turnEnds is when the hold is handed over no more, on the monotonic clock. Only the goroutine that begins or vacates
	// the hold writes it; those follow each other, ordered by the lock of the queue.
	turnEnds time.Duration
}

// Vacated implements hold.Home: the last lease was unlocked.
func (n *heldLock) OnRelease(now clock.Instant) error {
	if n.localQueue != nil {
		switch n.localQueue.HandOver(now, n.acquirer.Request.ShareKey, n) {
		case local.HandedOver:
			return nil
		case local.Refused:
			return n.endTurn(now)
		case local.NoWaiter:
		}
	}
	return n.release(now)
}

// release releases the hold.
func (n *heldLock) release(now clock.Instant) error {
	patience := n.patience(now)
	defer patience.End()
	return n.releaseWithin(patience, now, errs.ErrLostGone)
}

// used returns the stamp of the last token that was used.
func (n *heldLock) lastUsed() wire.Stamp { return wire.StampOf(n.Token()) }

// releaseWithin releases the hold, and waits for the reply as long as patience lasts. It returns gone if the
// server replies that the hold no longer exists.
func (n *heldLock) releaseWithin(patience context.Context, now clock.Instant, gone error) error {
	if err := n.Term.Stop(now); err != nil {
		return err // it was lost before it could be released; Lost does the rest
	}
	defer n.finish()
	// A renewal may have been executed as late as now: the hold ends after lasts at the latest.
	had, err := n.serverHold.Release(patience, n.lastUsed(), n.serverLife)
	return n.releaseError(had, err, gone)
}

// released returns the error of a release: gone if the server says that the hold had the lock no more.
func (n *heldLock) releaseError(had bool, err, gone error) error {
	switch {
	case err != nil:
		return n.acquirer.Base.Unconfirmed(clock.Now().Add(n.serverLife), err)
	case !had:
		return gone
	}
	return nil
}

// patience returns how long a call about this hold is waited for.
func (n *heldLock) patience(now clock.Instant) *session.Patience {
	return n.acquirer.Base.Session.PatientUnlock(n.Term.Deadline().Until(now))
}

// Lost implements hold.Home: the term ended under the holder. If the hold may still exist it is released, so
// that the next waiter need not wait until it expires.
func (n *heldLock) OnLost(end renewal.End) {
	n.acquirer.Base.LogLost(end)
	n.serverHold.Abandon()
	n.finish()
}

func (n *heldLock) finish() {
	n.leaveLocal()
	n.acquirer.leave(n.queue)
}

// leaveLocal counts the hold out of the queue of this process.
func (n *heldLock) leaveLocal() {
	if n.localQueue != nil {
		n.localQueue.HoldEnded(n.acquirer.Request.ShareKey)
		n.acquirer.Manager.LocalQueues.Done(n.localQueue)
	}
}

// Named implements hold.Namer.
func (n *heldLock) Named(op string, err error) error { return n.acquirer.Base.Named(op, err) }

// Superseded implements queue.Tenant.
func (n *heldLock) Superseded() { n.Term.Gone() }

// Evict implements queue.Tenant.
func (n *heldLock) Evict(cause error) { n.acquirer.Base.Evict(&n.Hold, cause) }

// Recheck implements queue.Tenant.
func (n *heldLock) Recheck() { n.Term.Recheck() }
