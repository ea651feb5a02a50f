// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/acquire"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/session"
)

// Election is one name, as one session sees it. Elections of one name in one session are the same
// election. It is safe for concurrent use. New makes one; the zero Election is of no use.
type Election struct {
	base     acquire.Base
	keys     electionKeys
	lock     *fair.Lock // the holder of the lock leads
	registry *electionRegistry
	stepDown time.Duration
	value    string // the value with which each term begins
}

// electionKeys are the keys and the channel of an election.
type electionKeys struct{ holder, leader, changed string }

// New returns the election name of the session. It sends nothing and never fails: if the name or an
// option is not valid, every call returns the error, and so does Check. Its options are StepDown,
// Value, signalbox.WithRenewedLease, signalbox.WithFirstLease, signalbox.WithReplicas,
// signalbox.WithTokenFloor, signalbox.WithClass and signalbox.WithLayout(signalbox.Native()); any other
// option is ErrBadOption.
func New(s *signalbox.Session, name string, options ...signalbox.LockOption) *Election {
	var set session.LockSettings
	e := new(Election)
	e.base = acquire.Make(s, name, &proto.Election, append(slices.Clip(options), end(&set)))
	if e.base.Err != nil {
		return e
	}
	set.Given, set.ParentKind = 0, &proto.Election // checked already, and not as options of a fair lock
	e.lock = fair.New(s, name, func(l *session.LockSettings) { *l = set })
	e.stepDown, e.value = set.Election.StepDown, set.Election.Value
	n := e.base.Names
	e.keys = electionKeys{holder: n.Holder, leader: n.Leader(), changed: n.Changed()}
	e.registry = registryOf(e.base.Session)
	return e
}

// Check returns what is wrong with the name, the options or the session, or nil. It sends
// nothing.
func (e *Election) Check() error { return e.root().Check() }

// Campaign makes the caller a candidate, and blocks until it leads or ctx ends. Candidates are
// served first in, first out, over all processes. ctx bounds the waiting, not the term.
//
// The caller must call Resign when its work has stopped, also if the term was lost.
//
// The errors are those of fair.Lock.Lock: the context's, joined with ErrHeld if another candidate
// led by the last reply. While the server is away, or refuses for now, Campaign waits.
func (e *Election) Campaign(ctx context.Context) (Term, error) {
	t, err := e.campaign(ctx)
	return Term{t}, e.root().Explain("campaign", err)
}

func (e *Election) campaign(ctx context.Context) (*term, error) {
	if err := e.root().Ready(ctx); err != nil {
		return nil, err
	}
	// A term is never entered again: each has a hold of its own.
	lease, err := e.lock.Lock(hold.WithoutLeases(ctx))
	if err != nil {
		return nil, acquire.WithoutOp(err)
	}
	return e.begin(lease), nil
}

// Leader returns the leader, as the server knows it, or ErrNotHeld if no process leads. The result may be
// outdated when it is read. One round trip, without a second try.
func (e *Election) Leader(ctx context.Context) (Leader, error) {
	h, err := e.fetchLeader(ctx)
	if err == nil && h.leader == (Leader{}) {
		err = errs.ErrNotHeld
	}
	return h.leader, e.root().Explain("leader", err)
}

// fetchLeader asks for the leader and its hold.
func (e *Election) fetchLeader(ctx context.Context) (holding, error) {
	if err := e.root().Ready(ctx); err != nil {
		return holding{}, err
	}
	h, err := readAll(e.base.Session.Runner.RunMany(ctx, appendCalls(nil, e.keys)))
	return h, acquire.CutShort(ctx, err)
}

// Health asks the server for the leader, and returns nil if this process can take part: it reached the
// server, and no term of this election in this session is in trouble. It is for health checks of standbys as well as
// of the leader. One round trip, without a second try. It returns
//
//   - ErrLost if such a term was lost, and was not resigned yet: its work still runs. A
//     leader that the server no longer knows gets it before its next renewal does. A term that ended with ErrHandover
//     is no such term while the server still names it;
//   - the context's error, ErrNoReply, ErrRefused, ErrDenied or the client's own error if the server
//     did not reply: a standby with this error would not lead if the leader died now;
//   - ErrClosed if the session is closed.
func (e *Election) Health(ctx context.Context) error {
	return e.root().Explain("health", e.health(ctx))
}

func (e *Election) health(ctx context.Context) error {
	if err := e.root().Ready(ctx); err != nil {
		return err
	}
	terms := e.registry.termsOf(e.keys.holder) // before the server is asked: it knows them, unless they are over
	h, err := e.fetchLeader(ctx)
	if err != nil {
		return err
	}
	for _, t := range terms {
		err := t.err()
		switch {
		case errors.Is(err, errs.ErrReleased), t.isResigned(): // resigned meanwhile
		case err != nil && !errors.Is(err, ErrHandover): // a term that was asked to hand over keeps its lease until its work has stopped
			return fmt.Errorf("the term is over, and was not resigned: %w", acquire.WithoutOp(err))
		case h.hold != t.hold:
			return fmt.Errorf("%w: the server names another leader, or none", errs.ErrLost)
		}
	}
	return nil
}

// Leading reports whether this session leads at this moment, as IsLeader does in client-go: it has a term of this election that lasts. It
// asks no server. For work that needs the lead use the context or the Err of the Term: after Leading
// returned true the term may end.
func (e *Election) Leading() bool {
	if e.root().CheckArgs() != nil {
		return false
	}
	return slices.ContainsFunc(e.registry.termsOf(e.keys.holder), func(t *term) bool { return t.err() == nil })
}

// root returns the base of the election. A nil Election has an empty one, whose calls return
// ErrBadOption.
func (e *Election) root() *acquire.Base {
	if e == nil {
		return new(acquire.Base)
	}
	return &e.base
}

const (
	// DefaultLease is the lease of a term unless signalbox.WithRenewedLease sets another one, for the
	// election or by signalbox.WithDefaults.
	DefaultLease = proto.DefaultTerm
	// MaxValue is the length of the longest value, in bytes.
	MaxValue = 4096
	// stepDownParts is which part of the lease StepDown is by default, and mostParts which it is at most.
	stepDownParts, mostParts = 3, 2
)

// StepDown sets how long before the end of its lease a term ends: the time that a leader has to
// stop its work after it lost touch with the server, which in client-go is LeaseDuration less RenewDeadline. It is a third of
// the lease by default. d is from 0 to half of the lease, and of the first lease if signalbox.WithFirstLease sets a shorter one.
//
// If the candidate had to wait, its term has at most 3 s until its first renewal, which is sent at once.
// Until then the term ends d before that time is over. If d is more than half of that time, the term
// ends the same share of it early as of the whole lease: a third by default.
func StepDown(d time.Duration) signalbox.LockOption {
	var err error
	if d < 0 {
		err = fmt.Errorf("%w: to step down %v before the end of the lease: it must be from 0", errs.ErrBadOption, d)
	}
	return session.Option(proto.OptionStepDown, err, func(l *session.LockSettings) { l.Election.StepDown = d })
}

// Value sets the value that each term begins with, such as the address of the process. Observers
// read it; SetValue changes it later. It has at most MaxValue bytes. By default it is empty. It is
// written just after the term began, so Leader may return the leader without it for a moment. Observe yields
// them together.
func Value(value string) signalbox.LockOption {
	return session.Option(proto.OptionValue, session.CheckValue(value, MaxValue), func(l *session.LockSettings) { l.Election.Value = value })
}

// end returns the option with which the options of an election end: it checks them together, and
// copies them to set.
func end(set *session.LockSettings) signalbox.LockOption {
	return func(l *session.LockSettings) {
		most := l.First() / mostParts
		switch {
		case l.Election.StepDown == session.Unset:
			l.Election.StepDown = l.Lease / stepDownParts
		case l.Election.StepDown > most:
			l.Fail(fmt.Errorf("%w: to step down %v before the end of the lease: it must be at most %v, half of the first lease",
				errs.ErrBadOption, l.Election.StepDown, most))
		}
		*set = *l
	}
}
