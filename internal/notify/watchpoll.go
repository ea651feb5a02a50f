// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"errors"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
)

const (
	// patience is how long a batch of polls waits for its replies.
	patience = time.Second
	// maxCalls bounds a pipeline.
	maxCalls = 200
)

// sentPoll is a poll that is under way.
type sentPoll struct {
	Poll

	subject *Subject
	calls   int
}

// pollAll polls the subjects that are due in one tick.
func (r *Registry) poll(subjects []*Subject) {
	ctx, cancel := errs.WithTimeout(r.ctx, patience)
	defer cancel()
	polls, calls := r.prepare(subjects)
	for len(polls) > 0 {
		n, size := pipeline(polls)
		outcomes := r.runner.RunMany(ctx, calls[:size])
		for _, p := range polls[:n] {
			p.replied(outcomes[:p.calls])
			outcomes = outcomes[p.calls:]
		}
		polls, calls = polls[n:], calls[size:]
	}
}

// prepare returns a poll for each of these subjects that has observers, and the calls of all.
func (r *Registry) prepare(subjects []*Subject) (polls []sentPoll, calls []wire.Call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.batch++
	now := timers.Now()
	polls, calls = make([]sentPoll, 0, len(subjects)), make([]wire.Call, 0, len(subjects))
	for _, s := range subjects {
		if s.observers == 0 || s.batch == r.mu.batch {
			continue
		}
		s.batch = r.mu.batch
		before := len(calls)
		calls = s.watched.AppendPoll(calls)
		if n := len(calls) - before; n > 0 {
			s.polls++
			polls = append(polls, sentPoll{Poll{s.polls, now}, s, n})
		}
	}
	return polls, calls
}

// pipeline returns how many polls, and how many calls of those, go in the next pipeline.
func pipeline(polls []sentPoll) (n, calls int) {
	for n < len(polls) && (n == 0 || calls+polls[n].calls <= maxCalls) {
		calls += polls[n].calls
		n++
	}
	return n, calls
}

// replied handles the replies to a poll, and schedules the next one.
func (p *sentPoll) replied(outcomes []wire.Outcome) {
	s, r := p.subject, p.subject.registry
	r.mu.Lock()
	if s.observers == 0 {
		r.mu.Unlock()
		return
	}
	again, err := s.watched.OnReply(p.Poll, outcomes)
	s.replied = s.replied || err == nil
	if s.refusal = nil; err != nil {
		s.failedLocked(p.Poll, err)
	}
	s.scheduleLocked()
	r.mu.Unlock()
	if again {
		r.polls.Put(s)
	}
}

// failedLocked notifies the Watched of a poll that failed. A right that was there before may come back.
func (s *Subject) failedLocked(p Poll, err error) {
	verdict := wire.Judge(err)
	if verdict != wire.Unknown || wire.IsReplyError(err) {
		s.refusal = err
	}
	final := verdict == wire.Final && !(s.replied && errors.Is(err, errs.ErrDenied))
	s.watched.OnFailure(p, Failure{err, final})
}
