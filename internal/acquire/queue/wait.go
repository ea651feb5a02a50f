// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// isUnchangedLocked reports whether a heartbeat will do at q: a poll saw a hold that still lasts, and grants are heard.
// Whatever else happens there changes the hold, which the heartbeat finds out. A poll is due now and then all the same: it
// keeps the keys, and finds a ticket that was lost though others are there.
func (q *Queue) isUnchangedLocked(now clock.Instant) bool {
	at := now.Mono()
	return q.seen != 0 && at < q.ends && at-q.polled < thorough*q.everyLocked() && q.ear != nil && !q.ear.IsUnsubscribed()
}

// waitAll sends the heartbeats in all, for many locks in one call, and returns the polls: those in all, and those of
// locks that have changed.
func (ls *Registry) waitAll(ctx context.Context, all []look) []look {
	isPoll := func(l look) bool { return l.seen == 0 }
	if !slices.ContainsFunc(all, func(l look) bool { return !isPoll(l) }) {
		return all
	}
	var waits, polls []look
	for _, l := range all {
		if isPoll(l) {
			polls = append(polls, l)
		} else {
			waits = append(waits, l)
		}
	}
	groups := ls.group(waits)
	calls := make([]wire.Call, len(groups))
	for i, group := range groups {
		calls[i] = ls.waitCall(group)
	}
	for i, outcome := range ls.session.Runner.RunMany(ctx, calls) {
		if outcome.Err != nil && len(groups[i]) > 1 {
			ls.session.Runner.SpanFailed(outcome.Err)
		}
		for n, l := range groups[i] {
			if outcome.Err == nil && outcome.Reply.Int(n+1) == 1 {
				l.waited(outcome.Reply.Stamp(0))
				continue
			}
			l.q.changed()
			polls = ls.prepare(polls, l.q)
		}
	}
	return polls
}

// group divides heartbeats into calls: a limited number each, and those of one slot unless scripts may span slots.
func (ls *Registry) group(waits []look) [][]look {
	spans := len(waits) < 2 || ls.session.Runner.SpansSlots()
	if !spans {
		slices.SortStableFunc(waits, func(a, b look) int { return int(a.q.keys.Slot) - int(b.q.keys.Slot) })
	}
	var groups [][]look
	for from, i := 0, 1; i <= len(waits); i++ {
		if i == len(waits) || i-from == maxWaits || waits[i].beat != waits[from].beat || !spans && waits[i].q.keys.Slot != waits[from].q.keys.Slot {
			groups, from = append(groups, waits[from:i]), i
		}
	}
	return groups
}

func (ls *Registry) waitCall(group []look) wire.Call {
	var stamps strings.Builder
	keys := make([]string, 0, 3*len(group))
	for _, l := range group {
		keys = append(keys, l.q.keys.All...)
		stamps.WriteString(l.seen.Text())
	}
	b := group[0].beat
	return wire.Call{Script: ls.kind.Heartbeat, Keys: keys, Args: []string{ls.session.ID(), micros(b.life), b.number, stamps.String()}}
}

// waited handles the reply that nothing has changed, at server time.
func (l *look) waited(server wire.Stamp) {
	ls, q, now := l.q.lines, l.q, clock.Now()
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.session.Clock.Observe(q.keys.Slot, server, now)
	q.repliedLocked()
	q.heardLocked(l.beat.sent)
	q.scheduleLocked(max(q.ends-now.Mono(), time.Microsecond))
}

// changed says that what the last poll saw is no longer so.
func (q *Queue) changed() {
	q.lines.mu.Lock()
	defer q.lines.mu.Unlock()
	if q.wait != nil {
		q.seen = 0
	}
}
