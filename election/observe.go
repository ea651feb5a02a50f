// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/notify"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// Leader describes the leader, as the server saw it at one moment. It is for routing requests and for
// people; only a Term proves that a process leads. The zero Leader says that no process leads.
type Leader struct {
	// Value is what the leader has set, by the option Value or by SetValue.
	Value string
	// Token is the fencing token of its term.
	Token uint64
	// Since is when its term began, by the server's clock.
	Since time.Time
	// Label is the label of its session; see signalbox.WithLabel.
	Label string
	// Session is the ID of its session.
	Session string
}

// Observe yields the leader, and then each change, until ctx ends. The first element describes a
// moment after the loop began. It yields the zero Leader when no process leads. Terms that are over before the
// observer hears of them are left out.
//
// Observers are notified by message; if it is lost they find out by a poll, about a second later. All
// observers of a session share the polls.
//
// An error says that the leader is not known. If waiting can help, the sequence continues: after
// 15 s without a reply of the server it yields one such error, and later the leader. Otherwise the
// error is the last element: the context's, ErrClosed, ErrBadName, ErrBadOption, ErrWrongKind,
// ErrDenied, or the server's own words.
func (e *Election) Observe(ctx context.Context) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		if err := e.observe(ctx, yield); err != nil {
			yield(Leader{}, e.root().Explain("observe", err))
		}
	}
}

// observe yields all elements but the last, and returns the error of that, or nil if the caller
// wants no more.
func (e *Election) observe(ctx context.Context, yield func(Leader, error) bool) error {
	if err := e.root().Await(ctx); err != nil {
		return err
	}
	e.base.Session.HandshakeInCluster(ctx, e.keys.leader)
	w, from, err := e.registry.join(e.keys)
	if err != nil {
		return err
	}
	defer w.subject.Leave()
	return w.latest.Observe(ctx, &w.subject, from, func(leader Leader, err error) bool {
		return yield(leader, e.base.Explain("observe", err))
	})
}

// appendCalls appends the calls that ask for the leader, for readAll: first for the value, so that it is not
// older than the hold that it is compared with. Each has one key, so a slot that moves refuses none.
func appendCalls(calls []wire.Call, k electionKeys) []wire.Call {
	return append(calls, wire.Call{Script: proto.ElectionReadScript, Keys: []string{k.leader}}, proto.Native().DescribeCall(k.holder))
}

// holding is what the server says about the leader.
type holding struct {
	leader   Leader // the zero Leader if no process leads
	hold     string
	letter   string // of the kind of the hold
	hasValue bool   // the hold has written a value: it is a term, since each of them writes one, and no other lock does
}

// readAll reads the replies to appendCalls.
func readAll(replies []wire.Outcome) (holding, error) {
	for _, outcome := range replies {
		if outcome.Err != nil {
			return holding{}, outcome.Err
		}
	}
	value := proto.ReadElectionValue(&replies[0].Reply)
	if value.Code == wire.Foreign {
		return holding{}, foreign()
	}
	holder, hold, letter, err := proto.Native().ReadHold(replies[1].Reply)
	switch {
	case errors.Is(err, errs.ErrNotHeld):
		return holding{}, nil
	case err != nil:
		return holding{}, err
	case !strings.Contains(proto.Native().Lock.CompatibleKinds, letter):
		return holding{}, proto.WrongKind(letter)
	}
	h := holding{hold: hold, letter: letter, hasValue: value.ID == hold}
	h.leader = Leader{Token: holder.Token, Since: holder.Since, Label: holder.Label, Session: holder.Session}
	if h.hasValue {
		h.leader.Value = value.Text
	}
	return h, nil
}

// electionRegistry holds the state of one session for elections: the observed ones, the terms, and the writes of values.
type electionRegistry struct {
	notify.Registry

	session   *session.Session
	writes    *timers.Collector[*term]
	questions *timers.Collector[*term] // the terms that may be asked to hand over

	terms struct {
		sync.Mutex
		byKey map[string]map[*term]struct{} // the terms that were not resigned, by the key of the holder
	}
}

func registryOf(s *session.Session) *electionRegistry {
	return session.RegistryOf(s, "election", func() *electionRegistry {
		r := &electionRegistry{session: s}
		r.Init(s.Timers, s.Dispatch, s.Runner)
		r.writes = timers.NewCollector(s.Timers, r.writeAll)
		r.questions = timers.NewCollector(s.Timers, r.sendQuestions)
		r.terms.byKey = make(map[string]map[*term]struct{})
		return r
	})
}

// addTerm remembers a term until it is resigned.
func (r *electionRegistry) addTerm(t *term) {
	key := t.election.keys.holder
	r.terms.Lock()
	defer r.terms.Unlock()
	if r.terms.byKey[key] == nil {
		r.terms.byKey[key] = make(map[*term]struct{})
	}
	r.terms.byKey[key][t] = struct{}{}
}

func (r *electionRegistry) removeTerm(t *term) {
	key := t.election.keys.holder
	r.terms.Lock()
	defer r.terms.Unlock()
	delete(r.terms.byKey[key], t)
	if len(r.terms.byKey[key]) == 0 {
		delete(r.terms.byKey, key)
	}
}

// termsOf returns the terms of an election that were not resigned, whichever Election of the session began them.
func (r *electionRegistry) termsOf(key string) []*term {
	r.terms.Lock()
	defer r.terms.Unlock()
	return slices.Collect(maps.Keys(r.terms.byKey[key]))
}

// join adds an observer, and returns the number of the first poll that is sent after this call.
func (r *electionRegistry) join(k electionKeys) (w *watchedElection, from uint64, err error) {
	w, err = notify.Join(&r.Registry, k.holder, notify.Channel{Name: k.changed, Types: notify.ShardedChannel}, func() *watchedElection {
		return &watchedElection{keys: k, latest: notify.NewLatest[Leader](silence)}
	}, func(w *watchedElection) (poll bool) {
		from = w.subject.NextPollLocked()
		return true
	})
	return w, from, err
}

// Close implements session.KindRegistry.
func (r *electionRegistry) Close() {
	r.Registry.Close()
	r.writes.Close()
	r.questions.Close()
}

// silence is how long the server may be silent before observers get the error.
const silence = DefaultLease

// watchedElection is one election that goroutines of this session observe. The lock of its registry guards the fields
// from latest on.
type watchedElection struct {
	subject notify.Subject
	keys    electionKeys

	latest notify.Latest[Leader] // the zero Leader if no process leads
	young  uint64                // the token of a leader that a poll found before its value, or 0
}

// Subject implements notify.Watched.
func (w *watchedElection) Subject() *notify.Subject { return &w.subject }

// AppendPoll implements notify.Watched.
func (w *watchedElection) AppendPoll(calls []wire.Call) []wire.Call {
	if w.latest.IsFinalLocked() {
		return calls
	}
	return appendCalls(calls, w.keys)
}

// OnReply implements notify.Watched. If a later poll had its replies before, these say nothing new.
func (w *watchedElection) OnReply(p notify.Poll, replies []wire.Outcome) (again bool, err error) {
	h, err := readAll(replies)
	if err != nil {
		return false, err
	}
	w.latest.ReplyLocked(p)
	if h.hasValue || !w.isYoungLocked(h.leader.Token) {
		w.latest.ShowLocked(p, h.leader, nil)
	}
	return false, nil
}

// OnFailure implements notify.Watched.
func (w *watchedElection) OnFailure(p notify.Poll, f notify.Failure) { w.latest.FailLocked(p, f) }

// isYoungLocked reports whether a leader whose value is missing has just begun, so that its value is not written yet.
// Observers get it with the next poll, with its value: the message about the value brings that forward. If there is
// no value then, it was lost, and they get the leader without it.
func (w *watchedElection) isYoungLocked(token uint64) bool {
	if token == 0 || token == w.latest.ValueLocked().Token || token == w.young {
		return false
	}
	w.young = token
	return true
}

// OnMessage implements notify.Watched. A message is a hint: the server is asked.
func (*watchedElection) OnMessage(string) (poll bool) { return true }

// OnClose implements notify.Watched.
func (w *watchedElection) OnClose(err error) { w.latest.CloseLocked(err) }
