// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/proto"
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

// errNotReleased says that it is not known whether an earlier hold of this process on a server was released there.
var errNotReleased = errors.New("what this process had there before is not known to be given back")

// awaitGone waits until nothing of a closed ballot is left on one server, and reports whether that is so.
// An Unlock returns when a quorum has released: the next ballot would find the hold on the other servers, and
// lose their votes to it.
func (b *ballot) awaitGone(ctx context.Context, i int) bool {
	if b == nil {
		return true
	}
	b.mu.Lock()
	at := &b.mu.servers[i]
	if !b.mu.closed || at.phase == ended { // not closed: it has a hold, and no ballot begins before that ends
		b.mu.Unlock()
		return true
	}
	if at.whenGone == nil {
		at.whenGone = make(chan struct{})
	}
	whenGone := at.whenGone
	b.mu.Unlock()
	select {
	case <-whenGone:
		return true
	case <-ctx.Done():
		return false
	}
}

// setGone records that nothing of the closed ballot is left on one server. It may be called more than
// once.
func (b *ballot) setGone(i int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.setGoneLocked(i)
}

func (b *ballot) setGoneLocked(i int) {
	at := &b.mu.servers[i]
	if at.phase != ended && at.whenGone != nil {
		close(at.whenGone)
	}
	at.phase = ended
}

// closeForRelease ends the voting for a release, which goes to every server that may have the hold.
func (b *ballot) closeForRelease() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.closed = true
	for i := range b.mu.servers {
		at := &b.mu.servers[i]
		if at.result == silent && at.phase == sent {
			at.phase = releasing
		}
	}
}

// isReleasing reports whether the release is to ask a server that is silent.
func (b *ballot) isReleasing(i int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.servers[i].phase == releasing
}

// recordRelease records the result of the release at a server that was silent when it was sent. If the release
// ended the hold, nothing is left to do: an acquire is executed once, and such a server is not healed. Otherwise the
// later of the release and the reply to the acquire releases what the server granted.
func (b *ballot) recordRelease(i int, wasHeld bool) { //nolint:revive // what was found, not a switch
	b.mu.Lock()
	at := &b.mu.servers[i]
	late := at.lateVote
	if at.phase = sent; wasHeld {
		b.setGoneLocked(i)
	}
	b.mu.Unlock()
	if !wasHeld && late.result != silent {
		b.undoVote(i, late)
	}
}

// close ends the voting, and reports whether it was open until now.
func (b *ballot) close() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	wasOpen := !b.mu.closed
	b.mu.closed = true
	return wasOpen
}

// abandon releases what servers have of the attempt, in the background, and lets late replies do so themselves.
func (b *ballot) abandon() {
	if !b.close() {
		return
	}
	for i := range b.holderValues {
		if v := b.vote(i); v.result != silent { // as it stood when the voting ended
			b.undoVote(i, v)
		}
	}
}

// undoVote releases what one server has of the attempt, or may have, in the background.
func (b *ballot) undoVote(i int, v vote) {
	if notAfter := b.healUnderWay(i); notAfter != 0 {
		b.undoHeal(i, v, notAfter)
		return
	}
	if v.result == granted || v.result == uncertain {
		b.undo(i, v.footprint)
		return
	}
	b.setGone(i)
}

// releaseCall is the call that releases the hold on one server.
func (b *ballot) releaseCall(i int) wire.Call {
	b.mu.Lock()
	floor := b.mu.floor
	b.mu.Unlock()
	l, m := b.lock, b.lock.members[i]
	return wire.Call{
		Script: proto.RedlockReleaseScript,
		Keys:   l.keys[:1],
		Args: proto.RedlockRelease{
			ID: b.hold(i), Floor: floor, Verb: m.PublishCommand(), Channel: l.base.Names.Unlocked(), KeepMS: l.base.Floor,
		}.AppendTo(nil),
	}
}

// undo releases the hold on one server until the release is confirmed: at once, and if that finds nothing because the
// acquire may still be on its way, once more after the not-after.
func (b *ballot) undo(i int, footprint session.Footprint) {
	life := b.lock.base.Terms.Lease
	u := footprint.Undo(b.releaseCall(i), session.MaxPatience+life, life)
	u.OnDone = func(error) { b.setGone(i) }
	u.OnReply = func(reply wire.Reply) time.Duration {
		b.setGone(i) // a later execution makes another hold than the next ballot's, and is released
		if reply.Code() == wire.Done {
			return 0 // the acquire was sent once, and no heal: gone is gone
		}
		return u.AfterCopies(proto.ReadUndone(&reply).Now)
	}
	b.lock.members[i].Undoer.Start(u)
}

// undoHeal releases the hold on one server to which a heal may be on its way. It is repeated until the not-after of the
// heal is over, also if it found the hold: that may have been written before the heal arrives.
func (b *ballot) undoHeal(i int, v vote, notAfter wire.Stamp) {
	life := b.lock.base.Terms.Lease
	footprint := session.Footprint{Unknown: true, NotAfter: notAfter}
	if v.result == uncertain {
		footprint.NotAfter = max(notAfter, v.footprint.NotAfter)
	}
	u := footprint.Undo(b.releaseCall(i), session.MaxPatience+life, life)
	u.OnDone = func(error) { b.setGone(i) }
	u.OnReply = func(reply wire.Reply) time.Duration {
		if reply.Code() == wire.Done {
			return time.Millisecond // this reply has no time; that of the next one has
		}
		return u.AfterCopies(proto.ReadUndone(&reply).Now)
	}
	b.lock.members[i].Undoer.Start(u)
}
