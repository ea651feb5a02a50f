// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// WantedHold is a LocalHold that learns that a living session other than its own waits for the lock; see Request.Wanted.
type WantedHold interface {
	session.LocalHold
	// OnWanted is called without a lock, once.
	OnWanted()
}

// attemptFlags are facts about an attempt, a bit each.
type attemptFlags uint8

const (
	needsRecheck attemptFlags = 1 << iota // Recheck was called before Register: the attempt may have had the lock before that, and lost it
	hinted                                // a message came before Register: another session may wait
	questionDue                           // the question whether another session waits is in the next batch
	notified                              // the hold knows that another session waits
)

const (
	// questionPatience is how long a batch of questions waits for its replies. Without one the next renewal asks again.
	questionPatience = time.Second
	// maxTicketsRead is the number of tickets among which a question looks for one of another session.
	maxTicketsRead = 100
	// maxQuestions bounds the questions of a pipeline.
	maxQuestions = 200
)

// questionLocked asks soon whether a living session of others waits for the lock that a holds, unless that is known, or asked in the next
// batch: a message and a mark are only hints. A question in that batch is executed after the hint was given. A hint before Register is
// remembered.
func (a *Attempt) questionLocked() {
	switch {
	case !a.request.Wanted || a.flags&(questionDue|notified) != 0 || a.state.isEnded():
	case a.localHold == nil:
		a.flags |= hinted
	default:
		a.flags |= questionDue
		a.q.registry.questions.Put(a)
	}
}

// sendQuestions asks the questions of one tick, in pipelines. It runs on the goroutine of the Collector, for which Close waits.
func (r *Queues) sendQuestions(attempts []*Attempt) {
	ctx, cancel := errs.WithTimeout(r.ctx, questionPatience)
	defer cancel()
	for len(attempts) > 0 {
		batch := attempts[:min(len(attempts), maxQuestions)]
		attempts = attempts[len(batch):]
		for i, outcome := range r.session.Runner.RunMany(ctx, r.questionsOf(batch)) {
			if outcome.Err == nil && r.isAnotherWaiting(outcome.Reply) {
				batch[i].notifyWanted()
			}
		}
	}
}

// questionsOf returns the question of each attempt. From here on a further hint makes a further question.
func (r *Queues) questionsOf(batch []*Attempt) []wire.Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls := make([]wire.Call, len(batch))
	for i, a := range batch {
		a.flags &^= questionDue
		waiters := proto.Waiters{After: "0", Count: strconv.Itoa(maxTicketsRead), Size: strconv.Itoa(len(a.ticket()))}
		calls[i] = wire.Call{Script: r.protocol.Waiters, Keys: a.q.keys.AppendKeys(nil)[1:], Args: waiters.AppendTo(nil)} // without the holder
	}
	return calls
}

// isAnotherWaiting reads the reply to a question.
func (r *Queues) isAnotherWaiting(reply wire.Reply) bool {
	return slices.ContainsFunc(proto.ReadWaiters(&reply), func(t proto.ListedTicket) bool {
		return t.Ticket != "" && t.IsAlive && !strings.HasPrefix(t.Ticket, r.session.ID())
	})
}

// notifyWanted notifies the hold of a, unless that was done, or is being released.
func (a *Attempt) notifyWanted() {
	registry := a.q.registry
	registry.mu.Lock()
	h, _ := a.localHold.(WantedHold)
	if h == nil || a.flags&notified != 0 {
		registry.mu.Unlock()
		return
	}
	a.flags |= notified
	registry.mu.Unlock()
	h.OnWanted()
}

// Resubscribed implements session.RecallRegistry: messages may have been lost. The renewal scripts say of many holds whose keys are
// marked, and only those ask.
func (r *Queues) Resubscribed() {
	r.mu.Lock()
	var all []session.LocalHold
	for a := range r.mu.attempts.all() {
		if a.request.Wanted && a.localHold != nil && a.flags&notified == 0 {
			all = append(all, a.localHold)
		}
	}
	r.mu.Unlock()
	for _, h := range all {
		h.Recheck()
	}
}

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
