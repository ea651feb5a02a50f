// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/signalbox-go/signalbox/internal/notify"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// heartbeat is one heartbeat. From its execution on, the session counts as alive for life, and so at least for life from
// the first sending. There is one heartbeat for each number, and a heartbeat is never changed.
type heartbeat struct {
	number string
	sent   timers.Instant
	life   time.Duration
}

// expires returns when a grant that h paid for can no longer be trusted.
func (h heartbeat) expires() timers.Instant { return timers.Deadline(h.sent, h.life) }

// heartbeatLocked returns a heartbeat for a call that is about to be sent. Calls that follow each other within a 64th of a
// life share a heartbeat, whatever queue they are for. A grant that it pays for is counted from the first of these calls,
// which is never too late.
func (r *Queues) heartbeatLocked(now timers.Instant) heartbeat {
	life, heartbeats := r.lifeLocked(), r.mu.heartbeats
	if n := len(heartbeats); n > 0 && heartbeats[n-1].life == life && now.Mono()-heartbeats[n-1].sent.Mono() < life/64 {
		return heartbeats[n-1]
	}
	kept := 0
	for kept < len(heartbeats) && heartbeats[kept].expires().Reached(now) {
		kept++
	}
	h := heartbeat{number: r.nextNumberLocked(), sent: now, life: life}
	r.mu.heartbeats = append(append(heartbeats[:0], heartbeats[kept:]...), h)
	return h
}

// findHeartbeatLocked returns the heartbeat with that number. It returns false if the heartbeat is not known, or has expired.
func (r *Queues) findHeartbeatLocked(number string, now timers.Instant) (heartbeat, bool) {
	for _, h := range r.mu.heartbeats {
		if h.number == number {
			return h, !h.expires().Reached(now)
		}
	}
	return heartbeat{}, false
}

// hasRecentHeartbeatLocked reports whether a heartbeat had a reply so recently that another one is not worth it.
func (q *Queue) hasRecentHeartbeatLocked(now timers.Instant) bool {
	return q.waitState != nil && !q.lastHeartbeat.IsZero() && !q.lastHeartbeat.Add(q.registry.lifeLocked()/8).Reached(now)
}

// nextNumberLocked returns the number of a heartbeat that is about to be sent. The numbers of a session rise over all
// queues. 48 random bits follow the digits: two copies of one process, restored from one snapshot, must not mistake each
// other's heartbeats for their own.
func (r *Queues) nextNumberLocked() string {
	r.mu.lastNumber++
	var random [6]byte
	_, _ = rand.Read(random[:]) // crypto/rand.Read never fails: it ends the process instead
	const digits = numberSize - 8
	number := make([]byte, digits, numberSize)
	for i := range number {
		number[i] = '0'
	}
	count := strconv.FormatInt(r.mu.lastNumber, 10)
	copy(number[digits-len(count):], count)
	return string(base64.RawURLEncoding.AppendEncode(number, random[:]))
}

// pollsPerLife is the number of poll intervals that a waiter's life lasts, so that two polls may fail. The scripts reject a
// life of more than pollsPerLife times notify.MaxPollInterval.
const pollsPerLife = 3

// lifeLocked returns for how long the session counts as alive after a heartbeat. It grows in steps, since a heartbeat can
// serve several calls only if they have the same life.
func (r *Queues) lifeLocked() time.Duration {
	const step = notify.PollInterval / 4
	every := (time.Duration(r.mu.pendingQueues)*notify.PollCost + step - 1).Truncate(step)
	return pollsPerLife * min(max(notify.PollInterval, every), notify.MaxPollInterval)
}

// isUnchangedLocked reports whether a heartbeat can replace the poll of q: a poll saw a hold that still lasts, and the
// session is subscribed to the grants. What a poll would find besides, a release, an end or a grant, changes the stamp of the
// hold, which the heartbeat finds out. A poll is due now and then all the same: it keeps the keys, and finds a lost ticket in a
// queue that has others.
func (q *Queue) isUnchangedLocked(now timers.Instant) bool {
	at := now.Mono()
	return q.polledStamp != 0 && at < q.holdEnds && at-q.polledAt < pollAnywayAfter*q.pollPauseLocked() &&
		q.listener != nil && !q.listener.IsUnsubscribed()
}

// sendHeartbeats sends the heartbeats in all, for many locks in one call. It returns the polls in all, and polls of the
// locks that have changed.
func (r *Queues) sendHeartbeats(ctx context.Context, all []queuePoll) []queuePoll {
	isPoll := func(p queuePoll) bool { return p.expectedStamp == 0 }
	if !slices.ContainsFunc(all, func(p queuePoll) bool { return !isPoll(p) }) {
		return all
	}
	var heartbeats, polls []queuePoll
	for _, p := range all {
		if isPoll(p) {
			polls = append(polls, p)
		} else {
			heartbeats = append(heartbeats, p)
		}
	}
	groups := r.groupHeartbeats(ctx, heartbeats)
	calls := make([]wire.Call, len(groups))
	for i, group := range groups {
		calls[i] = r.heartbeatsCall(group)
	}
	for i, outcome := range r.session.Runner.RunMany(ctx, calls) {
		if outcome.Err != nil && len(groups[i]) > 1 {
			r.session.Runner.Span.SpanFailed(outcome.Err)
		}
		for n, p := range groups[i] {
			if server, isUnchanged := proto.ReadUnchanged(&outcome.Reply, n); isUnchanged && outcome.Err == nil {
				p.handleUnchanged(server)
				continue
			}
			p.q.forgetPoll()
			polls = r.appendPoll(polls, p.q)
		}
	}
	return polls
}

// groupHeartbeats divides heartbeats into calls of at most maxHeartbeats locks. A call has the locks of one slot, unless
// scripts may span slots.
func (r *Queues) groupHeartbeats(ctx context.Context, all []queuePoll) [][]queuePoll {
	spans := len(all) < 2 || r.session.Runner.Span.SpansSlots(ctx)
	if !spans {
		slices.SortStableFunc(all, func(a, b queuePoll) int { return int(a.q.keys.Slot) - int(b.q.keys.Slot) })
	}
	var groups [][]queuePoll
	for from, i := 0, 1; i <= len(all); i++ {
		if i == len(all) || i-from == maxHeartbeats || all[i].heartbeat != all[from].heartbeat ||
			!spans && all[i].q.keys.Slot != all[from].q.keys.Slot {
			groups, from = append(groups, all[from:i]), i
		}
	}
	return groups
}

func (r *Queues) heartbeatsCall(group []queuePoll) wire.Call {
	var stamps strings.Builder
	keys := make([]string, 0, 3*len(group))
	for _, p := range group {
		keys = p.q.keys.AppendKeys(keys)
		stamps.WriteString(p.expectedStamp.Text())
	}
	h := group[0].heartbeat
	call := proto.LockHeartbeat{Session: r.session.ID(), HeartbeatUS: micros(h.life), Number: h.number, Stamps: stamps.String()}
	return wire.Call{Script: r.protocol.Heartbeat, Keys: keys, Args: call.AppendTo(nil)}
}

// handleUnchanged handles the reply that nothing has changed. server is the server's time.
func (p *queuePoll) handleUnchanged(server wire.Stamp) {
	registry, q, now := p.q.registry, p.q, timers.Now()
	registry.mu.Lock()
	defer registry.mu.Unlock()
	registry.session.Clock.Observe(q.keys.Slot, server, now)
	q.clearPollErrLocked()
	q.recordHeartbeatLocked(p.heartbeat.sent)
	q.schedulePollLocked(max(q.holdEnds-now.Mono(), time.Microsecond))
}

// forgetPoll records that the hold is no longer as the last poll saw it.
func (q *Queue) forgetPoll() {
	q.registry.mu.Lock()
	defer q.registry.mu.Unlock()
	if q.waitState != nil {
		q.polledStamp = 0
	}
}
