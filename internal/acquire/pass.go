// SPDX-License-Identifier: Apache-2.0

package acquire

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/signalbox-go/signalbox/internal/acquire/local"
	"github.com/signalbox-go/signalbox/internal/acquire/queue"
	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// Passing is how holds of one kind are handed over inside the process.
type TurnPolicy struct {
	// Yield asks whether a hold may be handed over further; see queue.Attempt.Yield. It is nil for kinds that release the hold
	// instead, and queue again.
	Yield *scripts.Script
	// cost is a moving average of how long it takes to hand the lock to another process, in nanoseconds. It is 0 for kinds
	// that are not queued again in the release: their turns are the longest.
	handOffCost atomic.Int64
}

const (
	// turns is how many times as long as the hand-off to another process a turn of this process lasts: so little is lost to
	// hand-offs.
	turns = 10
	// shortTurns is the same for a turn that is shortened because many tickets wait.
	shortTurns = 2
	// usualCost is how long a hand-off takes until it is measured: about what it takes on a local network.
	usualCost = 250 * time.Microsecond
	// longestTurn bounds a turn if the server is far.
	longestTurn = 20 * time.Millisecond
	// longQueue is how long a ticket waits before its turn is shortened.
	longQueue = 200 * time.Millisecond
	// crowdedQueue is how long it waits before its turn has fewer uses.
	crowdedQueue = 100 * time.Millisecond
)

// turn returns for how long a hold is handed over inside the process, from its grant on, while others may wait. The
// other bound is its number of uses. waited is how long its ticket was in the queue.
//
// A ticket waits for the turns of all others, so all of them see about the same wait, and shorten their turns alike. The
// longest turn shrinks with the cube of the wait: N tickets settle where N turns are the wait, at 0.35 s for 100 tickets and
// 0.63 s for 1,000. It depends on nothing else, so the turns of all sessions are equal, whatever each of them has measured.
func (p *TurnPolicy) length(waited time.Duration) time.Duration {
	cost := time.Duration(p.handOffCost.Load())
	if cost == 0 {
		return longestTurn
	}
	turn := min(turns*cost, longestTurn)
	if waited > longQueue {
		share := float64(longQueue) / float64(waited)
		shortened := time.Duration(share * share * share * float64(longestTurn))
		turn = min(turn, max(shortened, shortTurns*cost))
	}
	return turn
}

// lastOf returns the last token of a turn, of the block from first to last. A ticket that waited for long gets a part of
// the block.
//
// If uses are short, their number ends the turn, and not the time. Then all sessions have equally many, however the
// processes share the processors. 100 tickets with uses of 3.5 µs settle at a wait of 0.2 s and turns of 500 uses.
func lastOf(first, last uint64, waited time.Duration) uint64 {
	if waited <= crowdedQueue {
		return last
	}
	share := float64(crowdedQueue) / float64(waited)
	return first + uint64(share*float64(last-first))
}

// took records how long the server needed to hand the lock to another process.
func (p *TurnPolicy) recordHandOff(d time.Duration) {
	last := p.handOffCost.Load()
	p.handOffCost.Store(max(last+(int64(d)-last)/8, 1)) // of two at once one may not count
}

// Refuse implements session.Part.
func (k *Manager) Refuse(err error) {
	k.LocalQueues.Refuse(err)
	k.Granter.Refuse(err)
}

// Ticket implements local.Source.
func (l *Acquirer) NewTicket() (local.Ticket, error) {
	c, err := l.newTicket()
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Enter implements local.Ticket.
func (c *serverTicket) Join(ctx context.Context) (granted bool, err error) {
	c.atOnce, err = c.request.Join(c.undated.Of(ctx))
	if !c.atOnce && c.joinedAt.IsZero() {
		c.joinedAt = clock.Now()
	}
	return c.atOnce, err
}

// Leave implements local.Ticket.
func (c *serverTicket) Leave() {
	if a := c.request.Leave(); a != nil {
		a.Abandon()
	}
	c.acquirer.leave(c.queue)
}

// yielder is a queue.Holder that can be asked about.
type yielder interface {
	// Yield asks with script whether the hold may continue; see queue.Attempt.Yield.
	Yield(ctx context.Context, script *scripts.Script) (queue.YieldResult, error)
}

// Give implements local.Giver.
func (n *heldLock) NextLease(now clock.Instant) (hold.Lease, bool) {
	if now.Mono() >= n.turnEnds || n.acquirer.Base.Session.Ready() != nil {
		return hold.Lease{}, false
	}
	return n.HandOver(now)
}

// spent ends a turn: goroutines wait here, and the hold is not handed over to them any more.
func (n *heldLock) endTurn(now clock.Instant) error {
	if a, is := n.serverHold.(yielder); is && n.acquirer.Manager.Turns.Yield != nil {
		return n.yield(now, a)
	}
	if a, is := n.serverHold.(queue.Requeuer); is && n.acquirer.Base.Session.Begin() == nil {
		return n.requeue(now, a)
	}
	return n.release(now)
}

// requeue releases the hold and queues the session again, in one call. What that gets, a ticket or the lock, goes to a
// waiter. The session counts the candidate.
func (n *heldLock) requeue(now clock.Instant, a queue.Requeuer) error {
	l := n.acquirer
	if err := n.Term.Stop(now); err != nil {
		l.Base.Session.End()
		return err // it was lost before; Lost sees to the rest
	}
	defer n.finish()
	patience := n.patience(now)
	defer patience.End()
	place, had, err := a.Requeue(patience, n.lastUsed(), n.serverLife)
	if err == nil {
		l.Manager.Turns.recordHandOff(clock.Now().Mono() - now.Mono())
	}
	if place == nil {
		l.Base.Session.End()
	} else if c := (&serverTicket{acquirer: l, queue: l.Manager.Use(&l.Keys), request: place, joinedAt: now}); !n.localQueue.AssignTicket(l.Request.ShareKey, c) {
		c.Leave()
	}
	return n.releaseError(had, err, errs.ErrLostGone)
}

// yield asks the server whether the hold may be handed over further, which releases it if other sessions wait for it.
func (n *heldLock) yield(sent clock.Instant, a yielder) error {
	l := n.acquirer
	// Half of the rest: without a reply, the release has to begin before the term ends, which was unlocked in
	// time.
	patience := l.Base.Session.PatientUnlock(n.Term.Deadline().Until(sent) / 2)
	defer patience.End()
	fate, err := a.Yield(patience, l.Manager.Turns.Yield)
	now := clock.Now()
	switch {
	case err != nil && wire.Judge(err) == wire.Unknown:
		// The lease was unlocked in time. If the hold is gone, this question released it, and only the reply
		// was lost.
		return n.releaseWithin(patience, now, nil)
	case err != nil:
		return n.releaseWithin(patience, now, errs.ErrLostGone)
	case fate == queue.YieldGone:
		n.Term.Gone()
		return errs.ErrLostGone
	case fate == queue.YieldReleased:
		if n.Term.Stop(now) == nil {
			n.finish()
		}
		return nil // released in time, whatever the clock says by now
	}
	if grant := n.serverHold.Grant(); n.Term.Extended(grant.Life, grant.Sent) {
		n.Refill(grant.Tokens())
		n.turnEnds = grant.Read.Mono() + n.acquirer.Manager.Turns.length(0)
		if n.localQueue.HandOver(now, l.Request.ShareKey, n) == local.HandedOver {
			return nil
		}
	}
	// There is no waiter any more, or the term ended while the question was on its way, and Lost handles
	// that.
	return n.releaseWithin(patience, now, errs.ErrLostGone)
}
