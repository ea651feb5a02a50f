// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// A quorum heals. A server that lost its data gets the hold back, once a quorum of the other servers has confirmed it in
// the same round of renewals. docs/decisions/0060-a-quorum-heals.md has the rules and why they are sound.

const (
	// healPatience bounds how long after its sending a heal may be executed, and how long its reply is waited for.
	healPatience = session.MaxPatience
	// healTries is how often a server that another hold has is asked in one round: it may be the vote of a rival that
	// gets no quorum.
	healTries = 3
	// forcePatience is longer than a heal and a ForceUnlock take together, from the sending of the heal on.
	forcePatience = healPatience + 2*longestReply
	// hastePause is the shortest time between two rounds of a group that are sent early.
	hastePause = time.Second
)

// healing is what a ballot knows of each server since one said that its hold is gone. ballot.mu guards it.
type healing []memberHealing

// memberHealing is what is known of one server since healing began.
type memberHealing struct {
	confirmed  timers.Instant // when the last round was sent in which the server had the hold; zero if none
	written    wire.Stamp     // when the request without a reply was sent that wrote the hold; see writtenLocked
	reported   wire.Stamp     // the epoch that the server returned while it had no hold; 0 if none
	reportedIn uint64         // the newest round that had begun when reported arrived
	healed     timers.Instant // when the last heal was sent; zero if none
	sent       wire.Stamp     // the same by the server's clock
	notAfter   wire.Stamp     // the latest not-after of the heals
	isSent     bool           // a heal has no reply yet
	isUnknown  bool           // a heal that may have been executed had no reply
	removed    bool           // the server had the hold, and removed it: the lease is healed nowhere from then on
}

// hasEnded reports whether a server removed the hold, so that the lease is healed nowhere.
func (h healing) hasEnded() bool {
	return slices.ContainsFunc(h, func(at memberHealing) bool { return at.removed })
}

// healingLocked returns what the ballot knows, which begins with the first server that says that the hold is gone.
func (b *ballot) healingLocked() healing {
	if b.mu.healing == nil {
		b.mu.healing = make(healing, len(b.mu.servers))
		b.watched.Store(true)
	}
	return b.mu.healing
}

// writtenLocked returns when the server wrote the hold the last time, by its clock, or when the request was sent that did; 0 if it never
// did. No epoch begins between the two: within the quarantine an acquire writes nothing, nor does a heal that knows another epoch.
func (b *ballot) writtenLocked(i int) wire.Stamp {
	written := b.mu.healing[i].written
	if v := &b.mu.servers[i].vote; v.result == granted {
		written = max(written, v.written)
	}
	return written
}

// observe records what a server replied to a renewal that was sent at sent. It reports whether the hold there counts for a
// quorum, and whether the server lacks the hold, or the token of a lock that is Fenced.
func (h *quorumHold) observe(m *session.Session, sent timers.Instant, isThere bool) (counts, lacks bool) { //nolint:revive // a fact, not a switch
	i, b := h.indexOf(m), h.ballot
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.healingLocked()
	at, server := &all[i], &b.mu.servers[i]
	if !isThere {
		server.isFenced = false
		return false, !all.hasEnded()
	}
	if sent.Mono() > at.confirmed.Mono() || at.confirmed.IsZero() {
		at.confirmed = sent
	}
	at.reported = 0
	if server.result == uncertain {
		at.written = max(at.written, server.written)
	}
	if at.isSent || at.isUnknown {
		at.written = max(at.written, at.sent)
	}
	return all.counts(i), h.lock.base.Quorum.Fenced && !server.isFenced && !all.hasEnded()
}

// counts reports whether the hold on one server counts for a quorum. If another server has removed the hold, a ForceUnlock
// may have found this one free before it was healed. So it counts only if the other one confirmed the hold after that
// ForceUnlock must have been over.
func (h healing) counts(i int) bool {
	at := &h[i]
	if at.healed.IsZero() {
		return true
	}
	for k := range h {
		other := &h[k]
		if other.removed && (other.confirmed.IsZero() || other.confirmed.Mono() <= at.healed.Mono()+forcePatience) {
			return false
		}
	}
	return true
}

// isInLastLife reports whether WithMaxHold ends the hold within a lease: then it is healed no more.
func (h *quorumHold) isInLastLife(now timers.Instant) bool {
	until := h.Term.Config().Until
	return !until.IsZero() && until.Until(now) < h.lock.base.Terms.Lease
}

// indexOf returns the place of a member in the order of New.
func (h *quorumHold) indexOf(m *session.Session) int { return slices.Index(h.lock.members, m) }

// beginHeal returns the part of redlock/heal for the hold on one server, and false if it is not to be healed. It writes the hold
// for life. If that is 0, the heal only asks: it learns the epoch, or that the hold was removed, and repairs a fence. endHeal must follow.
func (h *quorumHold) beginHeal(m *session.Session, number uint64, life time.Duration, notAfter wire.Stamp) (part proto.RedlockHealHold, ok bool) {
	l, b, i := h.lock, h.ballot, h.indexOf(m)
	if !h.Term.Config().Renewed {
		return part, false // a fixed lease
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	all, server := b.healingLocked(), &b.mu.servers[i]
	at := &all[i]
	if b.mu.closed || all.hasEnded() || at.isSent || server.result == silent {
		return part, false
	}
	reported, fenced := "", ""
	written := b.writtenLocked(i)
	if l.isGreatest && written != 0 && at.reported != 0 && at.reportedIn < number {
		reported = at.reported.Text()
	}
	if l.base.Quorum.Fenced {
		fenced = "1"
	}
	if life > 0 { // else it writes no hold, so the one that is there counts as before
		at.healed, at.notAfter, at.isSent = timers.Now(), max(at.notAfter, notAfter), true
		at.sent = m.NotAfter(0, at.healed, 0)
	}
	// The hold is counted in at the session until its ballot is closed, which it is not.
	m.BeginDetached()
	return proto.RedlockHealHold{
		Hold: b.holderValues[i], Stamp: b.mu.floor, TTLMS: wire.Milliseconds(life), GreatestUS: l.greatestUS, Granted: written.Text(),
		Reported: reported, Fenced: fenced,
	}, true
}

// healResult is what a hold does after a heal.
type healResult uint8

const (
	nothing healResult = iota
	hasten             // renew soon: the next round may heal it
	retry              // ask again soon: another hold has the server
	recheck            // ask at once whether a quorum still has the hold
)

// endHeal records the outcome of a heal on one server, whose epoch is since and whose time is now.
func (h *quorumHold) endHeal(m *session.Session, isQuestion bool, code wire.Code, now, since wire.Stamp) healResult { //nolint:revive // a fact, not a switch
	defer m.End()
	b, i := h.ballot, h.indexOf(m)
	b.mu.Lock()
	defer b.mu.Unlock()
	all, server := b.mu.healing, &b.mu.servers[i]
	at := &all[i]
	if !isQuestion {
		at.isSent = false
	}
	switch code {
	case wire.Done:
		if b.mu.closed {
			at.isUnknown = true // the goroutine that closed it releases the hold, or has done so
			return nothing
		}
		if server.result == uncertain { // its acquire may still be executed
			at.isUnknown, at.notAfter = true, max(at.notAfter, server.footprint.NotAfter)
		}
		server.vote = vote{result: granted, stamp: server.stamp, written: now, footprint: session.Footprint{Left: session.HoldLeft}}
		server.isFenced = h.lock.base.Quorum.Fenced
		at.reported = 0
	case codeUnknown, wire.Refused: // a hold whose fence was refused is written
		at.isUnknown = at.isUnknown || !isQuestion
	case wire.TooYoung:
		isNew := at.reported != since
		at.reported, at.reportedIn = since, h.lock.group.rounds.Load()
		if isNew && h.lock.isGreatest && b.writtenLocked(i) != 0 {
			return hasten
		}
	case wire.Removed:
		at.removed = true
		return recheck
	case wire.NotDone:
		if isQuestion {
			return hasten
		}
		return retry
	default: // late, or another program's key: the next round asks again
	}
	return nothing
}

// codeUnknown stands for a call that may have been executed and has no reply.
const codeUnknown wire.Code = -100

// healUnderWay returns until when a heal of one server may be executed, by its clock, or 0 if none can be. It does not
// change after the ballot was closed, except to 0 if the heal is known to have written nothing.
func (b *ballot) healUnderWay(i int) wire.Stamp {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.healing == nil {
		return 0
	}
	if at := &b.mu.healing[i]; at.isSent || at.isUnknown {
		return at.notAfter
	}
	return 0
}

// healPace lets a group send early at most one round in hastePause.
type healPace struct {
	mu struct {
		sync.Mutex
		next timers.Instant // when the last early round was or is sent
	}
}

// due returns when the next early round is due. Holds that ask before that share it.
func (p *healPace) due(now timers.Instant) timers.Instant {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.next.Mono() <= now.Mono() || p.mu.next.IsZero() {
		next := now
		if earliest := p.mu.next.Add(hastePause); !p.mu.next.IsZero() && earliest.Mono() > now.Mono() {
			next = earliest
		}
		p.mu.next = next
	}
	return p.mu.next
}

// heal gives a server back those of these holds that a quorum of the others has confirmed. It is called on the goroutine
// of one server and one round, which the group waits for.
func (d *round) heal(m *session.Session, lacking []lack) {
	for try := 1; ; try++ {
		var isLate bool
		if lacking, isLate = d.healOnce(m, lacking); len(lacking) == 0 || try == healTries {
			return
		}
		if !isLate {
			m.Sleep(d.group.ctx, rand.N(hastePause), nil)
		}
	}
}

// healOnce sends one heal, and returns the holds that are worth another one: at once if it came late. Renewals have no time in
// their replies, so the server's clock may have been guessed long ago, and is learnt anew.
func (d *round) healOnce(m *session.Session, lacking []lack) (again []lack, isLate bool) {
	ctx, cancel := context.WithTimeout(d.group.ctx, healPatience)
	defer cancel()
	if m.Handshake(ctx, d.batch.Keys[lacking[0].key]) != nil || m.Runner.Clustered() {
		return nil, false
	}
	now := timers.Now()
	patience, lacking := d.healable(now, lacking)
	notAfter := m.NotAfter(0, now, patience)
	call := wire.Call{Script: proto.RedlockHealScript, Args: proto.RedlockHeal{NotAfter: notAfter.Text()}.AppendTo(nil)}
	var sent []lack
	for _, l := range lacking {
		if part, ok := d.holds[l.key].beginHeal(m, d.number, l.life, notAfter); ok {
			h := d.holds[l.key]
			if len(sent) == 0 {
				call.Keys = append(call.Keys, h.lock.keys[1]) // the epoch
			}
			sent = append(sent, l)
			call.Keys = append(call.Keys, h.lock.keys[0], h.lock.keys[2])
			call.Args = part.AppendTo(call.Args)
		}
	}
	if len(sent) == 0 {
		return nil, false
	}
	reply, err := m.Runner.Run(ctx, call)
	healed := proto.ReadRedlockHealed(&reply, len(sent))
	codes := healCodes(healed, err, len(sent))
	isLate = err == nil && healed.Code == wire.Late
	if healed.Now != 0 && err == nil {
		m.Clock.Observe(0, healed.Now, timers.Now())
	}
	for n, l := range sent {
		h := d.holds[l.key]
		switch h.endHeal(m, l.life == 0, codes[n], healed.Now, healed.Since) {
		case hasten:
			if !h.isInLastLife(timers.Now()) {
				h.Term.RenewBy(d.group.healPace.due(timers.Now()))
			}
		case recheck:
			h.Term.Recheck()
		case retry:
			again = append(again, l)
		case nothing:
		}
	}
	if isLate {
		again = sent
	}
	return again, isLate
}

// healable returns those holds that a quorum has confirmed, and for how long each of them lives at the least.
func (d *round) healable(now timers.Instant, lacking []lack) (patience time.Duration, left []lack) {
	patience = healPatience
	for _, l := range lacking {
		deadline := d.holds[l.key].Term.Deadline()
		if l.life > 0 {
			deadline = timers.Deadline(d.sent, l.life)
		}
		if lives := deadline.Until(now); lives > 0 && d.isCarried(l.key) {
			patience = min(patience, lives)
			left = append(left, l)
		}
	}
	return patience, left
}

// healCodes returns the code of each hold of a heal.
func healCodes(reply proto.RedlockHealed, err error, holds int) []wire.Code {
	codes := make([]wire.Code, holds)
	for n := range codes {
		switch {
		case err != nil && wire.MayHaveRun(err):
			codes[n] = codeUnknown
		case err != nil:
			codes[n] = wire.Late // it did nothing
		case reply.Code != wire.Done:
			codes[n] = reply.Code
		case reply.Codes == nil:
			codes[n] = codeUnknown // it cannot be read
		default:
			codes[n] = reply.Codes[n]
		}
	}
	return codes
}
