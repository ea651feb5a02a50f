// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"context"
	"errors"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/observe"
	"github.com/signalbox-go/signalbox/internal/timers"
)

// What is reported of a member. All of it is reported under the lock of the Member, so in order; the hooks run later.

// outcomes are the words for why work or a membership ended, the most telling first.
//
//nolint:gochecknoglobals // a constant table
var outcomes = []struct {
	err  error
	word string
}{
	{ErrMoved, "moved"},
	{ErrRemoved, "removed"},
	{ErrResized, "resized"},
	{errs.ErrClosed, "closed"},
	{errs.ErrLostGone, "gone"},
	{errs.ErrLost, "expired"},
}

// outcomeOf returns the word for a cause, otherwise that of a member that leaves.
func outcomeOf(cause error) string {
	for _, o := range outcomes {
		if errors.Is(cause, o.err) {
			return o.word
		}
	}
	return "left"
}

// grantReports is what was reported of a grant. The lock of the Member guards it.
type grantReports struct {
	granted    time.Duration // monotonic
	drainsFrom time.Duration // monotonic: when the work had to stop
	isDraining bool          // a report says that the work must stop
	isSlow     bool          // a report says that the work does not stop
}

// event returns the event of a grant, at this moment.
func (g *grant) event() observe.Event {
	r, now := &g.reports, timers.Now().Mono()
	e := observe.Event{Shard: g.name, Token: g.stamp.Token(), Held: now - r.granted}
	if cause := context.Cause(g.root); cause != nil {
		e.Outcome, e.Err = outcomeOf(cause), cause
	}
	if r.isDraining {
		e.Waited = now - r.drainsFrom
	}
	return e
}

// unreadEvent returns the event of a grant that was not taken up.
func (g *grant) unreadEvent() observe.Event {
	e := g.event()
	e.Outcome, e.Waited = "unread", e.Held
	return e
}

func (g *grant) reportGrantedLocked() {
	g.reports.granted = timers.Now().Mono()
	g.membership.member.reports.Granted(g.event())
}

// reportDrainingLocked reports that the work must stop, once.
func (g *grant) reportDrainingLocked() {
	if r := &g.reports; !r.isDraining {
		r.isDraining, r.drainsFrom = true, timers.Now().Mono()
		g.membership.member.reports.Draining(g.event())
	}
}

// reportReleasedLocked reports that the work has stopped. If it had to, that was reported before.
func (g *grant) reportReleasedLocked() {
	if context.Cause(g.root) != nil {
		g.reportDrainingLocked()
	}
	e := g.event()
	if e.Err == nil {
		e.Outcome = "released"
	}
	g.membership.member.reports.Released(e)
}

// reportJoinedLocked reports that the server knows the membership.
func (ms *membership) reportJoinedLocked() {
	ms.joinedAt, ms.isKnown = timers.Now().Mono(), true
	ms.member.reports.Joined(observe.Event{Waited: ms.joinedAt - ms.began})
}

// reportEndLocked reports the end of the membership, unless it was reported before or never joined.
func (ms *membership) reportEndLocked(cause error) {
	if !ms.isKnown {
		return
	}
	ms.isKnown = false
	ms.member.reports.Left(observe.Event{Outcome: outcomeOf(cause), Err: cause, Held: timers.Now().Mono() - ms.joinedAt})
}

// reportSlow reports the shards whose work has not stopped for a minute, each once.
func (ms *membership) reportSlow() {
	m := ms.member
	if m.reports == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := timers.Now().Mono()
	for _, g := range m.mu.grants {
		if r := &g.reports; r.isDraining && !r.isSlow && now-r.drainsFrom > drainsFor {
			r.isSlow = true
			m.reports.Slow(g.event())
		}
	}
}
