// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/dispatch"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

const (
	// maxListed is how many attempts a poll lists: the first ones, which may have been granted, and some of
	// the others in turn, which may have lost their tickets.
	maxListed, maxFirst = 16, 4
	// pollPatience is how long a batch of polls waits for its reply.
	pollPatience = time.Second
	// maxPolls bounds a pipeline, and maxWaits the locks of one call in it.
	maxPolls, maxHeartbeats = 200, 100
	// pollAnywayAfter is how many pauses there are between two polls though nothing has changed.
	pollAnywayAfter = 16
)

// queuePoll is one poll of a queue, or a heartbeat alone.
type queuePoll struct {
	q              *Queue
	heartbeat      heartbeat
	unchangedStamp wire.Stamp // of the hold beside which a heartbeat will do; 0 is a poll
	listed         []*Attempt
	floorTTL       string // see Wish
}

// pollAll polls the queues that are due in one tick.
func (r *Registry) pollAll(queues []*Queue) {
	ctx, cancel := errs.WithTimeout(r.ctx, pollPatience)
	defer cancel()
	polls := make([]queuePoll, 0, len(queues))
	added := make(map[*Queue]bool, len(queues))
	for _, q := range queues {
		if !added[q] {
			added[q] = true
			polls = r.appendPoll(polls, q)
		}
	}
	polls = r.sendHeartbeats(ctx, polls)
	for len(polls) > 0 {
		n := min(len(polls), maxPolls)
		r.sendPolls(ctx, polls[:n])
		polls = polls[n:]
	}
}

// appendPoll adds a poll of q, unless no attempt enters or waits there, and none has for a while.
func (r *Registry) appendPoll(polls []queuePoll, q *Queue) []queuePoll {
	r.mu.Lock()
	defer r.mu.Unlock()
	if q.pending == 0 {
		r.dropLocked(q)
		return polls
	}
	q.initWaitLocked()
	q.pollScheduled = false
	now := clock.Now()
	p := queuePoll{q: q, heartbeat: r.heartbeatLocked(now)}
	if q.isUnchangedLocked(now) {
		p.unchangedStamp = q.seenStamp
	} else {
		p.listed, p.floorTTL = q.listLocked(), q.newestRequest.FloorTTL
	}
	return append(polls, p)
}

// listLocked chooses the attempts that a poll lists, among those whose enter had a reply: the urgent ones,
// the first, and others in turn.
func (q *Queue) listLocked() []*Attempt {
	listed := make([]*Attempt, 0, min(maxListed, len(q.waiting)))
	chosen := make(map[*Attempt]bool, cap(listed))
	add := func(a *Attempt) {
		if (a.state == queued || a.pollFirst) && !chosen[a] && len(listed) < maxListed {
			chosen[a] = true
			listed = append(listed, a)
		}
	}
	for _, a := range q.waiting {
		if a.pollFirst {
			add(a)
			a.pollFirst = false
		}
	}
	for _, a := range q.waiting[:min(maxFirst, len(q.waiting))] {
		add(a)
	}
	for range q.waiting {
		if len(listed) == maxListed {
			break // the turn of the others comes
		}
		q.lastListed = (q.lastListed + 1) % len(q.waiting)
		add(q.waiting[q.lastListed])
	}
	return listed
}

// sendPolls sends polls in one pipeline, and heartbeats alone for the queues that refuse them because
// their slot is being moved.
func (r *Registry) sendPolls(ctx context.Context, polls []queuePoll) {
	calls := make([]wire.Call, len(polls))
	for i, l := range polls {
		calls[i] = l.call()
	}
	var refused []wire.Call
	var alone []queuePoll
	for i, outcome := range r.session.Runner.RunMany(ctx, calls) {
		if outcome.Err != nil {
			if wire.TryAgain(outcome.Err) {
				refused = append(refused, polls[i].heartbeatCall())
				alone = append(alone, polls[i])
			}
			polls[i].recordFailure(outcome.Err)
			continue
		}
		polls[i].handleReply(outcome.Reply)
	}
	if len(refused) > 0 {
		r.pollWithHolderKey(ctx, alone, refused)
	}
}

// pollWithHolderKey sends heartbeats for polls that were refused because their slot is being moved, and polls with
// the holder key alone, which lengthen the hold of an attempt that has the lock.
func (r *Registry) pollWithHolderKey(ctx context.Context, polls []queuePoll, calls []wire.Call) {
	if !r.protocol.isExclusive() {
		r.session.Runner.RunMany(ctx, calls)
		return
	}
	for i := range polls {
		calls = append(calls, polls[i].q.withHolderKeyAlone(polls[i].call()))
	}
	for i, outcome := range r.session.Runner.RunMany(ctx, calls)[len(polls):] {
		if outcome.Err == nil {
			polls[i].handleReply(outcome.Reply)
		}
	}
}

func (p *queuePoll) call() wire.Call {
	q, s := p.q, p.q.registry.session
	var attempts strings.Builder
	for _, a := range p.listed {
		attempts.WriteString(a.attempt())
		attempts.WriteString(a.request.Mode)
	}
	return wire.Call{
		Script: q.registry.protocol.Poll,
		Keys:   q.keys.All,
		Args: []string{
			s.ID(), micros(p.heartbeat.life), p.heartbeat.number, s.Settings.Label,
			s.PublishCommand(), q.keys.Channel, attempts.String(), p.floorTTL,
		},
	}
}

func (p *queuePoll) heartbeatCall() wire.Call {
	s := p.q.registry.session
	return wire.Call{
		Script: scripts.QueueHeartbeat,
		Keys:   []string{p.q.keys.All[len(p.q.keys.All)-1]},
		Args:   []string{s.ID(), micros(p.heartbeat.life), p.heartbeat.number, s.Settings.Label},
	}
}

// recordFailure handles a poll that had no reply, or was refused: the next one comes early, because the life
// continues to run down.
func (p *queuePoll) recordFailure(err error) {
	registry := p.q.registry
	registry.mu.Lock()
	defer registry.mu.Unlock()
	hadRight := p.q.polledAt != 0 && errors.Is(err, errs.ErrDenied) // for the poll before
	if wire.Judge(err) == wire.Final && !hadRight {
		p.q.refuseLocked(err)
	}
	p.q.pollErr = err
	p.q.schedulePollLocked(dispatch.PollInterval / 4)
}

// refuseLocked ends the attempts of q: waiting does not help them.
func (q *Queue) refuseLocked(err error) {
	for _, a := range q.waiting {
		if a.state == entering || a.state == queued {
			a.state, a.refusal = over, err
			a.wake()
		}
	}
}

// handleReply handles the reply to a poll.
func (p *queuePoll) handleReply(reply wire.Reply) {
	registry, q, now := p.q.registry, p.q, clock.Now()
	registry.mu.Lock()
	defer registry.mu.Unlock()
	if reply.Code() != wire.Done {
		q.refuseLocked(session.WrongKind(reply.Text(1)))
		return
	}
	registry.session.Clock.Observe(q.keys.Slot, reply.Stamp(5), now)
	q.clearPollErrLocked()
	q.recordHeartbeatLocked(p.heartbeat.sent)
	left := time.Duration(reply.Int(1)) * time.Microsecond
	q.seenStamp, q.polledAt, q.holdEnds = 0, p.heartbeat.sent.Mono(), p.heartbeat.sent.Mono()+left
	if registry.protocol.Heartbeat != nil && left > 0 {
		q.seenStamp = reply.Stamp(6)
	}
	has := make(map[string]bool) // by attempt
	for g := range parseGrants(reply.Text(3)) {
		has[g.attempt] = true
		registry.applyGrantLocked(g, now)
	}
	more := reply.Int(2) == 1
	tickets := reply.Text(4)
	for i, a := range p.listed {
		if a.state == queued && i < len(tickets) && tickets[i] == '0' && !has[a.attempt()] {
			a.state, a.lockWasHeld = ticketLost, left > 0
			a.wake()
			q.lastHeartbeat = clock.Instant{}             // the life may be lost too: the next enter is a heartbeat
			more = more || len(q.waiting) > len(p.listed) // those that are not listed have lost theirs too
		}
	}
	if more {
		q.pollLocked()
		return
	}
	q.schedulePollLocked(left)
}

// schedulePollLocked schedules the next poll: after a pause, or when the hold of another session ends, which
// lasts for left at most.
func (q *Queue) schedulePollLocked(left time.Duration) {
	if q.pending == 0 {
		return
	}
	now := clock.Now().Mono()
	q.pollScheduled, q.pollDue = true, q.nextPollLocked(now)
	if in := q.pollDue - now; left > 0 && left < in {
		spread := time.Duration(q.registry.mu.pendingQueues) * dispatch.PollCost
		q.pollDue = now + min(left+time.Millisecond+rand.N(spread+1), in)
	}
	q.registry.session.Timers.Schedule(&q.timer, q.pollDue-now)
}

// nextPollLocked returns when the next poll is due: after eight to nine tenths of a pause. The polls of all queues of the
// session fall on the same instants, so that many fit in one call. Those of several sessions drift apart.
func (q *Queue) nextPollLocked(now time.Duration) time.Duration {
	every := q.pollPauseLocked()
	next, grid := now+every*9/10, every/10-time.Duration(q.registry.drift*float64(every))
	return next - (next+q.registry.phase)%grid
}

// hastenPollLocked brings the next poll forward if one that is planned now comes earlier.
func (q *Queue) hastenPollLocked() {
	if q.waitState != nil && q.pollScheduled && q.nextPollLocked(clock.Now().Mono()) < q.pollDue {
		q.schedulePollLocked(0)
	}
}
