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

// sendHeartbeats sends the heartbeats in all, for many locks in one call, and returns the polls: those in all, and those of
// locks that have changed.
func (r *Registry) sendHeartbeats(ctx context.Context, all []queuePoll) []queuePoll {
	isPoll := func(l queuePoll) bool { return l.unchangedStamp == 0 }
	if !slices.ContainsFunc(all, func(l queuePoll) bool { return !isPoll(l) }) {
		return all
	}
	var heartbeats, polls []queuePoll
	for _, l := range all {
		if isPoll(l) {
			polls = append(polls, l)
		} else {
			heartbeats = append(heartbeats, l)
		}
	}
	groups := r.groupHeartbeats(heartbeats)
	calls := make([]wire.Call, len(groups))
	for i, group := range groups {
		calls[i] = r.heartbeatsCall(group)
	}
	for i, outcome := range r.session.Runner.RunMany(ctx, calls) {
		if outcome.Err != nil && len(groups[i]) > 1 {
			r.session.Runner.SpanFailed(outcome.Err)
		}
		for n, l := range groups[i] {
			if outcome.Err == nil && outcome.Reply.Int(n+1) == 1 {
				l.handleUnchanged(outcome.Reply.Stamp(0))
				continue
			}
			l.q.forgetSeen()
			polls = r.appendPoll(polls, l.q)
		}
	}
	return polls
}

// groupHeartbeats divides heartbeats into calls: a limited number each, and those of one slot unless scripts may span slots.
func (r *Registry) groupHeartbeats(heartbeats []queuePoll) [][]queuePoll {
	spans := len(heartbeats) < 2 || r.session.Runner.SpansSlots()
	if !spans {
		slices.SortStableFunc(heartbeats, func(a, b queuePoll) int { return int(a.q.keys.Slot) - int(b.q.keys.Slot) })
	}
	var groups [][]queuePoll
	for from, i := 0, 1; i <= len(heartbeats); i++ {
		if i == len(heartbeats) || i-from == maxHeartbeats || heartbeats[i].heartbeat != heartbeats[from].heartbeat || !spans && heartbeats[i].q.keys.Slot != heartbeats[from].q.keys.Slot {
			groups, from = append(groups, heartbeats[from:i]), i
		}
	}
	return groups
}

func (r *Registry) heartbeatsCall(group []queuePoll) wire.Call {
	var stamps strings.Builder
	keys := make([]string, 0, 3*len(group))
	for _, l := range group {
		keys = append(keys, l.q.keys.All...)
		stamps.WriteString(l.unchangedStamp.Text())
	}
	b := group[0].heartbeat
	return wire.Call{Script: r.protocol.Heartbeat, Keys: keys, Args: []string{r.session.ID(), micros(b.life), b.number, stamps.String()}}
}

// handleUnchanged handles the reply that nothing has changed, at server time.
func (p *queuePoll) handleUnchanged(server wire.Stamp) {
	registry, q, now := p.q.registry, p.q, clock.Now()
	registry.mu.Lock()
	defer registry.mu.Unlock()
	registry.session.Clock.Observe(q.keys.Slot, server, now)
	q.clearPollErrLocked()
	q.recordHeartbeatLocked(p.heartbeat.sent)
	q.schedulePollLocked(max(q.holdEnds-now.Mono(), time.Microsecond))
}

// forgetSeen says that what the last poll saw is no longer so.
func (q *Queue) forgetSeen() {
	q.registry.mu.Lock()
	defer q.registry.mu.Unlock()
	if q.waitState != nil {
		q.seenStamp = 0
	}
}
