// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/timers"
)

// idleState says whether the hold of an attempt may be kept while no goroutine uses it.
type idleState uint8

const (
	mayBeMarked idleState = iota // no request that found no mark was sent since recalls arrive
	foundUnmarked
	recalled // another session wants the lock, or may do so without this one learning of it
	wanted   // recalled, by a message
	inVain   // wanted, and at the release no session waited
)

func (s idleState) isRecalled() bool { return s >= recalled }

// MayKeep reports whether the hold of a may be kept while no goroutine uses it, as of now: no session is known to wait for the
// lock, and this one learns of the first that does. That is certain if the key had no mark when a request was executed that was
// sent after recalls began to arrive, and if no recall has come since. A recall after MayKeep calls OnRecall.
func (a *Attempt) MayKeep() bool {
	registry := a.q.registry
	registry.mu.Lock()
	defer registry.mu.Unlock()
	return a.idle == foundUnmarked && a.localHold != nil && a.footprint.Left == session.UnmarkedHoldLeft && a.q.pending == 0
}

// OnKept records the reply to a renewal of the hold of a, which was sent at sent: whether the key is marked.
func (a *Attempt) OnKept(sent timers.Instant, isMarked bool) {
	registry := a.q.registry
	registry.mu.Lock()
	var h session.RecalledHold
	switch {
	case isMarked:
		h = idleHold{a}.recallLocked(recalled)
		a.questionLocked()
	default:
		idleHold{a}.foundNoMarkLocked(sent)
	}
	registry.mu.Unlock()
	if h != nil {
		h.OnRecall()
	}
}

// foundNoMarkLocked records that a request, which was sent at sent, found no mark. When recalls cease to arrive, the session
// changes what ReceivesRecalls returns, and then calls RecallAll: so either this finds that, or RecallAll finds a.
func (a idleHold) foundNoMarkLocked(sent timers.Instant) {
	if a.idle == mayBeMarked && a.request.KeepFor > 0 && a.q.registry.session.Forces.ReceivesRecalls(sent) {
		a.idle = foundUnmarked
	}
}

// recallLocked records a recall, whatever the state of a: the message may overtake the reply of the enter. It returns the hold to
// notify, or nil.
func (a idleHold) recallLocked(how idleState) session.RecalledHold {
	if a.request.KeepFor == 0 {
		if a.request.Wanted {
			a.idle = recalled // the key is marked, so no short release is tried
		}
		return nil
	}
	a.idle = max(a.idle, how)
	h, _ := a.localHold.(session.RecalledHold)
	return h
}

// WasWantedInVain reports, after Release, whether another session recalled the hold of a by a message and does not wait for it: by a try,
// or for a lock of another kind.
func (a *Attempt) WasWantedInVain() bool {
	a.q.registry.mu.Lock()
	defer a.q.registry.mu.Unlock()
	return a.idle == inVain
}

// releasedUnwanted records that a was released, and that no session waited.
func (a idleHold) releasedUnwanted() {
	a.q.registry.mu.Lock()
	defer a.q.registry.mu.Unlock()
	if a.idle == wanted {
		a.idle = inVain
	}
}

// Recall implements session.RecallRegistry.
func (r *Queues) Recall(attempt string) {
	r.mu.Lock()
	var h session.RecalledHold
	if a := r.mu.attempts.get(attempt); a != nil {
		h = idleHold{a}.recallLocked(wanted)
		a.questionLocked()
	}
	r.mu.Unlock()
	if h != nil {
		h.OnRecall()
	}
}

// RecallAll implements session.RecallRegistry.
func (r *Queues) RecallAll() {
	r.mu.Lock()
	var all []session.RecalledHold
	for a := range r.mu.attempts.all() {
		if h := (idleHold{a}).recallLocked(recalled); h != nil {
			all = append(all, h)
		}
	}
	r.mu.Unlock()
	for _, h := range all {
		h.OnRecall()
	}
}
