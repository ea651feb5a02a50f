// SPDX-License-Identifier: Apache-2.0

package acquire

import (
	"sync/atomic"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/queue"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/waitroom"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// TurnPolicy says for how long holds of one kind are handed over inside the process.
type TurnPolicy struct {
	// Yield asks whether a hold may be handed over further; see queue.Attempt.Yield. It is nil for kinds that release the hold
	// instead, and queue again.
	Yield *scripts.Script
	// handOffCost is a moving average of how long it takes to hand the lock to another process, in nanoseconds. It is 0 for kinds
	// that are not queued again in the release: their turns are the longest.
	handOffCost atomic.Int64
}

const (
	// turnFactor is how many times as long as the hand-off to another process a turn of this process lasts: so little is lost to
	// hand-offs.
	turnFactor = 10
	// shortTurnFactor is the same for a turn that is shortened because many tickets wait.
	shortTurnFactor = 2
	// initialHandOffCost is how long a hand-off takes until it is measured: about what it takes on a local network.
	initialHandOffCost = 250 * time.Microsecond
	// maxTurn bounds a turn if the server is far.
	maxTurn = 20 * time.Millisecond
	// longWait is how long a ticket waits before its turn is shortened.
	longWait = 200 * time.Millisecond
	// longWaitForUses is how long a ticket waits before its turn has fewer uses.
	longWaitForUses = 100 * time.Millisecond
)

// length returns for how long a hold is handed over inside the process, from its grant on, while others may wait. The
// other bound is its number of uses. waited is how long its ticket was in the queue.
//
// A ticket waits for the turns of all others, so all of them see about the same wait, and shorten their turns alike. The
// longest turn shrinks with the cube of the wait: N tickets settle where N turns are the wait, at 0.35 s for 100 tickets and
// 0.63 s for 1,000. It depends on nothing else, so the turns of all sessions are equal, whatever each of them has measured.
func (p *TurnPolicy) length(waited time.Duration) time.Duration {
	cost := time.Duration(p.handOffCost.Load())
	if cost == 0 {
		return maxTurn
	}
	turn := min(turnFactor*cost, maxTurn)
	if waited > longWait {
		share := float64(longWait) / float64(waited)
		shortened := time.Duration(share * share * share * float64(maxTurn))
		turn = min(turn, max(shortened, shortTurnFactor*cost))
	}
	return turn
}

// lastToken returns the last token of a turn, of the block from first to last. A ticket that waited for long gets a part of
// the block.
//
// If uses are short, their number ends the turn, and not the time. Then all sessions have equally many, however the
// processes share the processors. 100 tickets with uses of 3.5 µs settle at a wait of 0.2 s and turns of 500 uses.
func lastToken(first, last uint64, waited time.Duration) uint64 {
	if waited <= longWaitForUses {
		return last
	}
	share := float64(longWaitForUses) / float64(waited)
	return first + uint64(share*float64(last-first))
}

// recordHandOff records how long the server needed to hand the lock to another process.
func (p *TurnPolicy) recordHandOff(d time.Duration) {
	last := p.handOffCost.Load()
	p.handOffCost.Store(max(last+(int64(d)-last)/8, 1)) // of two at once one may not count
}

// NextLease implements waitroom.UnlockedHold. The turn is over, too, if the host was suspended since the server's last reply, from which
// the deadline counts: then the monotonic clock does not tell how long ago that was.
func (h *heldLock) NextLease(now timers.Instant) (hold.Lease, bool) {
	slept := now.Lead() - h.Term.Deadline().Lead()
	if now.Mono() >= h.turnEnds || slept >= maxTurn || h.acquirer.Base.Session.Ready() != nil {
		return hold.Lease{}, false
	}
	return h.HandOver(now)
}

// endTurn ends a turn: goroutines wait here, and the hold is not handed over to them any more.
func (h *heldLock) endTurn(now timers.Instant) error {
	attempt, isQueued := h.serverHold.(*queue.Attempt)
	switch {
	case isQueued && h.acquirer.Manager.Turns.Yield != nil:
		return h.yield(now, attempt)
	case isQueued && h.acquirer.Base.Session.Begin() == nil:
		return h.requeue(now, attempt)
	}
	return h.release(now)
}

// requeue releases the hold and queues the session again, in one call. What that gets, a ticket or the lock, goes to a
// waiter. The session counts the new ticket.
func (h *heldLock) requeue(now timers.Instant, attempt *queue.Attempt) error {
	a := h.acquirer
	if err := h.Term.Stop(now); err != nil {
		a.Base.Session.End()
		return err // it was lost before; OnLost does the rest
	}
	defer h.finish()
	patience := h.patience(now)
	defer patience.End()
	next, wasHeld, err := attempt.Requeue(patience, h.lastUsed(), h.serverLife())
	if err == nil {
		a.Manager.Turns.recordHandOff(timers.Mono() - now.Mono())
	}
	if next != nil && !h.localQueue.AssignTicket(a.Request.ShareKey, next) {
		next.Leave()
	}
	return h.releaseError(wasHeld, err, errs.ErrLostGone)
}

// yield asks the server whether the hold may be handed over further, which releases it if other sessions wait for it.
func (h *heldLock) yield(sent timers.Instant, attempt *queue.Attempt) error {
	a := h.acquirer
	// Half of the rest: without a reply, the release has to begin before the term ends, which was unlocked in
	// time.
	patience := a.Base.Session.PatientUnlock(h.Term.Deadline().Until(sent) / 2)
	defer patience.End()
	result, err := attempt.Yield(patience, a.Manager.Turns.Yield)
	now := timers.Now()
	switch {
	case err != nil && wire.Judge(err) == wire.Unknown:
		// The lease was unlocked in time. If the hold is gone, this question released it, and only the reply
		// was lost.
		return h.releaseWithin(patience, now, nil)
	case err != nil:
		return h.releaseWithin(patience, now, errs.ErrLostGone)
	case result == queue.YieldGone:
		h.Term.Gone()
		return errs.ErrLostGone
	case result == queue.YieldReleased:
		if h.Term.Stop(now) == nil {
			h.finish()
		}
		return nil // released in time, whatever the clock says by now
	}
	if grant := h.serverHold.Grant(); h.Term.Extended(grant.Life, grant.Sent) {
		h.Refill(grant.Tokens())
		h.turnEnds = grant.Read + h.acquirer.Manager.Turns.length(0)
		if h.localQueue.HandOver(now, a.Request.ShareKey, h) == waitroom.HandedOver {
			return nil
		}
	}
	// There is no waiter any more, or the term ended while the question was on its way, and OnLost
	// handles that.
	return h.releaseWithin(patience, now, errs.ErrLostGone)
}
