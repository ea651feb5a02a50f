// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/signalbox-go/signalbox/internal/acquire"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// ErrHandover is why a term ended that was asked to hand over; see Election.Handover. Run campaigns again after it.
var ErrHandover = errors.New("the leader was asked to hand over")

// ErrNoCandidate says that there is no living candidate to which the leader could hand over.
var ErrNoCandidate = errors.New("no candidate waits")

const (
	// requestPause is how often Handover repeats its request, and pollPause how often it polls for another leader.
	requestPause, pollPause = time.Second, 100 * time.Millisecond
	// requestLife is how long the server remembers a request that is not repeated.
	requestLife = 5 * time.Second
)

// Handover asks the leader to hand over to another candidate, and returns the next leader. It is for planned work, as before the
// leader's host is restarted. Nothing is taken away: the term of the leader ends with ErrHandover, and the next one begins when its
// work has stopped, with Resign. Run resigns when its function has returned, and campaigns again, at the end of the queue.
//
// session is the ID of the session that is to lead next: its first candidate moves to the head of the queue. Without one, "", the first
// candidate of another session than the leader's is next. A candidate that is not living (docs/guarantees.md) is passed over, also
// for the one that was named. Of the queue the first 1,000 tickets are read.
//
// A request is bound to the term. Handover repeats it each second until the leader has changed, or until ctx ends; then the
// leader forgets it within 5 s, but may have begun to stop. A leader learns of it by a message; with WithPolling, or while it has no
// subscription, by a question, one in each lease. A leader of an older release does not. Two round trips, and ten a second while it waits.
//
// It asks only a leader whose value it has read, which a term writes when it begins. While a fair lock of the name is held, it blocks, and
// asks nobody.
//
// It returns ErrNotHeld if no process leads, ErrWrongKind if the name is held by a reentrant lock, or by a fair one with
// signalbox.WithWanted, ErrNoCandidate if there is no such candidate, and the errors of Leader. After an error the leader may still hand
// over.
func (e *Election) Handover(ctx context.Context, session string) (Leader, error) {
	l, err := e.handover(ctx, session)
	return l, e.root().Explain("hand over", err)
}

func (e *Election) handover(ctx context.Context, session string) (Leader, error) {
	first, err := e.fetchLeader(ctx)
	switch {
	case err != nil:
		return Leader{}, err
	case first.leader == (Leader{}):
		return Leader{}, errs.ErrNotHeld
	case first.letter != string(acquire.Ordered):
		return Leader{}, proto.WrongKind(first.letter) // its holder would hear of no request, and the order of its waiters is not ours
	}
	isTerm := first.hasValue // else it is a fair lock, or a term whose value is not written yet, or was lost
	if err := e.base.Session.Handshake(ctx, e.keys.holder); err != nil {
		return Leader{}, acquire.CutShort(ctx, err)
	}
	var requested time.Time // the zero time: at once
	for {
		if isTerm && time.Since(requested) >= requestPause {
			requested = time.Now()
			if err := e.requestHandover(ctx, first.hold[:min(len(first.hold), proto.HoldSize)], session); err != nil {
				return Leader{}, err
			}
		}
		next, err := e.fetchLeader(ctx)
		switch {
		case err != nil && wire.Judge(err) == wire.Final:
			return Leader{}, err
		case err == nil && next.leader != (Leader{}) && next.leader.Token != first.leader.Token:
			return next.leader, nil
		}
		isTerm = isTerm || next.hold == first.hold && next.hasValue
		if e.base.Session.Sleep(ctx, pollPause, e.registry.Context().Done()); ctx.Err() != nil {
			return Leader{}, errs.Ended(ctx)
		}
	}
}

// requestHandover sends one request to the leader with that hold. Executed late, it does nothing: the caller may have given up.
func (e *Election) requestHandover(ctx context.Context, held, member string) error {
	of, slot := e.base.Session, e.base.Names.Slot
	reply, err := of.Runner.Run(ctx, wire.Call{
		Script: proto.ElectionMoveScript,
		Keys:   []string{e.keys.holder, e.base.Names.QueueKey(), e.base.Names.HeartbeatsKey()},
		Args: proto.ElectionMove{
			ID: held, Member: member, KeepUS: strconv.FormatInt(requestLife.Microseconds(), 10),
			NotAfter: of.NotAfter(slot, timers.Now(), session.MaxPatience).Text(),
		}.AppendTo(nil),
	})
	moved := proto.ReadElectionMoved(&reply)
	switch {
	case err != nil && wire.Judge(err) == wire.Final:
		return acquire.CutShort(ctx, err)
	case err == nil && moved.Code == wire.Late:
		of.Clock.Observe(slot, moved.Now, timers.Now()) // the next request is in time
	case err == nil && moved.Code == wire.Done && !moved.Found:
		if member != "" {
			return fmt.Errorf("%w of session %q", ErrNoCandidate, member)
		}
		return ErrNoCandidate
	}
	return nil // without a reply, or for another leader: the caller fetches the leader
}

// Recall implements session.RecallRegistry: a message for the hold of a term is a hint that it is asked to hand over.
func (r *electionRegistry) Recall(attempt string) {
	r.terms.Lock()
	defer r.terms.Unlock()
	for _, terms := range r.terms.byKey {
		for t := range terms {
			if t.hold[proto.SessionSize:] == attempt {
				r.questions.Put(t)
			}
		}
	}
}

// RecallAll implements session.RecallRegistry: nothing is kept.
func (*electionRegistry) RecallAll() {}

// Resubscribed implements session.RecallRegistry. Handover repeats what was lost.
func (*electionRegistry) Resubscribed() {}

// sendQuestions asks whether these terms are asked to hand over.
func (r *electionRegistry) sendQuestions(terms []*term) {
	ctx, cancel := errs.WithTimeout(r.Context(), writePatience)
	defer cancel()
	calls := make([]wire.Call, len(terms))
	for i, t := range terms {
		keys, requested := []string{t.election.base.Names.HeartbeatsKey()}, proto.ElectionRequested{ID: t.hold}
		calls[i] = wire.Call{Script: proto.ElectionRequestedScript, Keys: keys, Args: requested.AppendTo(nil)}
	}
	for i, outcome := range r.session.Runner.RunMany(ctx, calls) {
		if outcome.Err == nil && outcome.Reply.Code() == wire.Done {
			terms[i].handOver()
		}
	}
}

// handOver ends the term because it was asked to hand over.
func (t *term) handOver() {
	t.mu.Lock()
	if t.mu.cause == nil {
		t.mu.cause = t.named(ErrHandover)
	}
	t.mu.Unlock()
	_ = t.err() // which cancels
}
