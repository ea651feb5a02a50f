// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/waitroom"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// quorumHold is the lock held by this process, from the vote to the release. It implements hold.Owner.
//
// Exactly one of OnRelease and OnLost ends it: OnRelease continues only if it stopped the term, and a stopped term
// does not report its end.
type quorumHold struct {
	hold.Hold

	lock   *Lock
	queue  *waitroom.Room
	ballot *ballot
}

// OnRelease implements hold.Owner: the last lease was unlocked.
func (h *quorumHold) OnRelease(now timers.Instant) error {
	if err := h.Term.Stop(now); err != nil {
		return err // it was lost before it could be released; OnLost does the rest
	}
	defer h.countOut()
	h.lock.group.holds.remove(h)
	return h.release(h.Term.Deadline().Until(now))
}

// Key implements hold.Owner.
func (h *quorumHold) Key() string { return h.lock.base.Names.Holder }

// ID implements hold.Owner.
func (h *quorumHold) ID() string { return h.ballot.attempt }

// countOut counts the hold out: its servers have nothing of it any more, or are not waited for any longer.
func (h *quorumHold) countOut() {
	h.queue.HoldEnded(request())
	h.lock.endAll(h.queue)
}

type releaseResult struct {
	wasHeld bool // the server had the hold until now
	err     error
}

// release releases the lock on all servers. It returns when a quorum is known to have had the hold until then, or
// known not to have had it, or when patience is over, which left bounds. Calls without a reply by then continue in the
// background.
func (h *quorumHold) release(left time.Duration) error {
	l := h.lock
	h.ballot.closeForRelease()
	results := make(chan releaseResult, len(l.members))
	runAll(l.members, func(i int, m *session.Session) {
		results <- h.releaseAt(i, m, left)
	})
	count := tally{n: len(l.members)}
	var failures []error
	for range l.members {
		r := <-results
		if r.err != nil {
			failures = append(failures, r.err)
			continue
		}
		count.add(r.wasHeld)
		switch count.verdict() {
		case carried:
			return nil
		case failed:
			return errs.ErrLostGone
		case open:
		}
	}
	// A renewal may have been executed as late as now.
	return l.base.Unconfirmed(timers.Now().Add(h.Term.Config().Life), errs.Join(failures...))
}

// releaseAt releases the hold on one server. A server that was silent until now is asked as well, behind the acquire; see
// ballot.recordRelease.
func (h *quorumHold) releaseAt(i int, m *session.Session, left time.Duration) releaseResult {
	v, healUntil := h.ballot.vote(i), h.ballot.healUnderWay(i) // as they stood when the voting ended
	if healUntil == 0 && (v.result == held || v.result == refused) {
		h.ballot.undoVote(i, v)
		return releaseResult{}
	}
	if v.result == silent && !h.ballot.isReleasing(i) {
		return releaseResult{} // no acquire will be sent to it either
	}
	ctx := m.PatientUnlock(left)
	reply, err := m.Runner.Run(ctx, h.ballot.releaseCall(i))
	ctx.End()
	wasHeld := err == nil && reply.Code() == wire.Done
	switch {
	case healUntil != 0:
		h.ballot.undoHeal(i, v, healUntil)
	case v.result == silent:
		h.ballot.recordRelease(i, wasHeld)
	case err != nil || !wasHeld && v.result == uncertain:
		h.ballot.undo(i, v.footprint)
	default:
		h.ballot.setGone(i)
	}
	return releaseResult{wasHeld, h.lock.withNumber(i, err)}
}

// Named implements hold.Namer.
func (h *quorumHold) Named(op string, err error) error { return h.lock.base.Named(op, err) }

// OnLost implements hold.Owner: the term ended under the holder. Some servers may still have the hold, also if a
// quorum does not: it is released, so that others need not wait until it expires.
func (h *quorumHold) OnLost(end hold.End) {
	h.lock.base.LogLost(end)
	h.ballot.abandon()
	h.lock.group.holds.remove(h)
	h.countOut()
}

// Evict implements session.LocalHold.
func (h *quorumHold) Evict(cause error) { h.lock.base.Evict(&h.Hold, cause) } // which calls OnLost

// Superseded implements session.LocalHold.
func (h *quorumHold) Superseded() { h.Term.Gone() }

// Recheck implements session.LocalHold.
func (h *quorumHold) Recheck() { h.Term.Recheck() }
