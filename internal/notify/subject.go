// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"errors"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// Watched is what a kind knows of one name while goroutines of the session observe it. All methods but Subject are
// called with the lock of the registry held. They must not block, and must not call the registry or the subject, except
// methods whose names end in Locked.
type Watched interface {
	// Subject returns the same Subject each time.
	Subject() *Subject
	// AppendPoll appends the calls of a poll, which is about to be sent. If it appends none, there is no poll until a
	// Join, a message or a subscription asks for one.
	AppendPoll(calls []wire.Call) []wire.Call
	// OnReply handles the replies to a poll, one for each call, and reports whether to poll again at once. It returns
	// the first error of a reply, or the error that a reply says; then OnFailure is called, too.
	OnReply(p Poll, replies []wire.Outcome) (again bool, err error)
	// OnFailure handles a poll that failed.
	OnFailure(p Poll, f Failure)
	// OnMessage handles a message, and reports whether to poll.
	OnMessage(message string) (poll bool)
	// OnClose ends every observation with an error: the session closes.
	OnClose(err error)
}

// Poll is one poll of a name.
type Poll struct {
	Number uint64         // the first poll of a Subject has 1
	Sent   timers.Instant // read before the poll was sent
}

// Failure is why a poll failed.
type Failure struct {
	Err   error
	Final bool // no later poll can succeed
}

// Subject is what the observers of one name share. A Watched has one, whose zero value is ready for Join.
type Subject struct {
	registry     *Registry
	watched      Watched
	key          string
	next         timers.Timer // schedules the next poll
	subscription Subscription // guarded by itself

	observers int
	polls     uint64 // the number of the last poll that was sent
	batch     uint64 // the number of the last batch that has a poll of this subject
	replied   bool   // a poll succeeded, so a right that is missing now may come back
	refusal   error  // the error with which the server refused the last poll, or nil
}

// Leave removes an observer. The last one ends the polls and the subscription.
func (s *Subject) Leave() {
	r := s.registry
	r.mu.Lock()
	s.observers--
	last := s.observers == 0
	if last {
		delete(r.mu.subjects, s.key)
		r.timers.Cancel(&s.next)
	}
	r.mu.Unlock()
	if last {
		s.subscription.Close()
	}
}

// Refusal returns the error with which the server refused the last poll, or nil.
func (s *Subject) Refusal() error {
	s.registry.mu.Lock()
	defer s.registry.mu.Unlock()
	return s.refusal
}

// NextPollLocked returns the number of the next poll.
func (s *Subject) NextPollLocked() uint64 { return s.polls + 1 }

// IsUnsubscribedLocked reports whether messages do not arrive.
func (s *Subject) IsUnsubscribedLocked() bool { return s.subscription.IsUnsubscribed() }

func (s *Subject) scheduleLocked() {
	r := s.registry
	r.timers.Schedule(&s.next, JitteredInterval(s.subscription.PollInterval(), len(r.mu.subjects)))
}

// due is a Subject whose timer fires.
type due Subject

// Fire implements timers.Firer: the next poll is due.
func (d *due) Fire() { d.registry.polls.Put((*Subject)(d)) }

type listener Subject

// OnSubscribed implements notify.Handler: messages before now may be lost.
func (l *listener) OnSubscribed() { l.registry.polls.Put((*Subject)(l)) }

// OnUnsubscribed implements notify.Handler: it brings the next poll forward, to that of a session that receives no
// messages.
func (l *listener) OnUnsubscribed() {
	l.registry.mu.Lock()
	defer l.registry.mu.Unlock()
	if l.observers > 0 {
		(*Subject)(l).scheduleLocked()
	}
}

// OnMessage implements notify.Handler.
func (l *listener) OnMessage(message string) {
	l.registry.mu.Lock()
	poll := l.observers > 0 && l.watched.OnMessage(message)
	l.registry.mu.Unlock()
	if poll {
		l.registry.polls.Put((*Subject)(l))
	}
}

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
