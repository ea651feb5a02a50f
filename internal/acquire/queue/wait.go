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
	return q.seenStamp != 0 && at < q.holdEnds && at-q.polledAt < pollAnywayAfter*q.pollPauseLocked() && q.listener != nil && !q.listener.IsUnsubscribed()
}

// waitAll sends the heartbeats in all, for many locks in one call, and returns the polls: those in all, and those of
// locks that have changed.
func (ls *Registry) sendHeartbeats(ctx context.Context, all []queuePoll) []queuePoll {
	isPoll := func(l queuePoll) bool { return l.unchangedStamp == 0 }
	if !slices.ContainsFunc(all, func(l queuePoll) bool { return !isPoll(l) }) {
		return all
	}
	var waits, polls []queuePoll
	for _, l := range all {
		if isPoll(l) {
			polls = append(polls, l)
		} else {
			waits = append(waits, l)
		}
	}
	groups := ls.groupHeartbeats(waits)
	calls := make([]wire.Call, len(groups))
	for i, group := range groups {
		calls[i] = ls.heartbeatsCall(group)
	}
	for i, outcome := range ls.session.Runner.RunMany(ctx, calls) {
		if outcome.Err != nil && len(groups[i]) > 1 {
			ls.session.Runner.SpanFailed(outcome.Err)
		}
		for n, l := range groups[i] {
			if outcome.Err == nil && outcome.Reply.Int(n+1) == 1 {
				l.handleUnchanged(outcome.Reply.Stamp(0))
				continue
			}
			l.q.forgetSeen()
			polls = ls.appendPoll(polls, l.q)
		}
	}
	return polls
}

// group divides heartbeats into calls: a limited number each, and those of one slot unless scripts may span slots.
func (ls *Registry) groupHeartbeats(waits []queuePoll) [][]queuePoll {
	spans := len(waits) < 2 || ls.session.Runner.SpansSlots()
	if !spans {
		slices.SortStableFunc(waits, func(a, b queuePoll) int { return int(a.q.keys.Slot) - int(b.q.keys.Slot) })
	}
	var groups [][]queuePoll
	for from, i := 0, 1; i <= len(waits); i++ {
		if i == len(waits) || i-from == maxHeartbeats || waits[i].heartbeat != waits[from].heartbeat || !spans && waits[i].q.keys.Slot != waits[from].q.keys.Slot {
			groups, from = append(groups, waits[from:i]), i
		}
	}
	return groups
}

func (ls *Registry) heartbeatsCall(group []queuePoll) wire.Call {
	var stamps strings.Builder
	keys := make([]string, 0, 3*len(group))
	for _, l := range group {
		keys = append(keys, l.q.keys.All...)
		stamps.WriteString(l.unchangedStamp.Text())
	}
	b := group[0].heartbeat
	return wire.Call{Script: ls.config.Heartbeat, Keys: keys, Args: []string{ls.session.ID(), micros(b.life), b.number, stamps.String()}}
}

// waited handles the reply that nothing has changed, at server time.
func (l *queuePoll) handleUnchanged(server wire.Stamp) {
	ls, q, now := l.q.registry, l.q, clock.Now()
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.session.Clock.Observe(q.keys.Slot, server, now)
	q.clearPollErrLocked()
	q.recordHeartbeatLocked(l.heartbeat.sent)
	q.schedulePollLocked(max(q.holdEnds-now.Mono(), time.Microsecond))
}

// changed says that what the last poll saw is no longer so.
func (q *Queue) forgetSeen() {
	q.registry.mu.Lock()
	defer q.registry.mu.Unlock()
	if q.waitState != nil {
		q.seenStamp = 0
	}
}
