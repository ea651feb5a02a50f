// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
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
	if err := e.root().Ready(ctx); err != nil {
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
	return append(calls, wire.Call{Script: scripts.ElectionRead, Keys: []string{k.leader}}, session.DescribeCall(k.holder))
}

// readAll reads the replies to appendCalls. It returns the zero Leader if no process leads.
func readAll(replies []wire.Outcome) (l Leader, held string, err error) {
	for _, outcome := range replies {
		if outcome.Err != nil {
			return Leader{}, "", outcome.Err
		}
	}
	value := replies[0].Reply
	if value.Code() == wire.Foreign {
		return Leader{}, "", foreign()
	}
	holder, held, letter, err := session.ReadHold(replies[1].Reply)
	switch {
	case errors.Is(err, errs.ErrNotHeld):
		return Leader{}, "", nil
	case err != nil:
		return Leader{}, "", err
	case letter != "r" && letter != "f":
		return Leader{}, "", session.WrongKind(letter)
	}
	l = Leader{Token: holder.Token, Since: holder.Since, Label: holder.Label, Session: holder.Session}
	if value.Text(1) == held {
		l.Value = value.Text(2)
	}
	return l, held, nil
}
