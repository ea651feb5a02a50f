// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/notify"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
)

const (
	// maxListed is the number of attempts that a poll lists. These are the first maxFirst attempts, which may have been
	// granted the lock, and some of the others in turn, which may have lost their tickets.
	maxListed, maxFirst = 16, 4
	// pollPatience is how long a batch of polls waits for its reply.
	pollPatience = time.Second
	// maxPolls bounds the polls of a pipeline, and maxHeartbeats the locks of one call of heartbeats.
	maxPolls, maxHeartbeats = 200, 100
	// pollAnywayAfter is the number of poll intervals after which a queue is polled though nothing has changed.
	pollAnywayAfter = 16
)

// queuePoll is one poll of a queue, or a heartbeat that replaces it.
type queuePoll struct {
	q             *Queue
	heartbeat     heartbeat
	expectedStamp wire.Stamp // the stamp of the hold that has to be unchanged, if a heartbeat replaces the poll; otherwise 0
	listed        []*Attempt
	floorTTL      string // see Request
}

// pollAll polls the queues that are due in one tick.
func (r *Queues) pollAll(queues []*Queue) {
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

// appendPoll appends a poll of q. If no attempt enters or waits there, it appends nothing, and forgets a queue without users.
func (r *Queues) appendPoll(polls []queuePoll, q *Queue) []queuePoll {
	r.mu.Lock()
	defer r.mu.Unlock()
	if q.pending == 0 {
		r.dropLocked(q)
		return polls
	}
	q.initWaitLocked()
	q.pollScheduled = false
	now := timers.Now()
	p := queuePoll{q: q, heartbeat: r.heartbeatLocked(now)}
	if q.isUnchangedLocked(now) {
		p.expectedStamp = q.polledStamp
	} else {
		p.listed, p.floorTTL = q.listLocked(), q.newestRequest.FloorTTL
	}
	return append(polls, p)
}

// listLocked chooses the attempts that a poll lists: those that may have been granted the lock, the first ones of the queue, and
// others in turn. Of the latter two only attempts whose enter had a reply are listed.
func (q *Queue) listLocked() []*Attempt {
	listed := make([]*Attempt, 0, min(maxListed, q.waiting.len()))
	for len(listed) < cap(listed) {
		a := q.waiting.takeFirst()
		if a == nil {
			break
		}
		listed = append(listed, a) // the next poll lists those that are too many for this one
	}
	add := func(a *Attempt) {
		if a != nil && a.state == queued && len(listed) < cap(listed) && !slices.Contains(listed, a) {
			listed = append(listed, a)
		}
	}
	first := 0
	for a := range q.waiting.all() {
		if first++; first > maxFirst {
			break
		}
		add(a)
	}
	for range q.waiting.slots {
		if len(listed) == cap(listed) {
			break // the turn of the others comes
		}
		add(q.waiting.nextInTurn())
	}
	return listed
}

// sendPolls sends polls in one pipeline. For queues that refuse a poll because their slot is being moved, heartbeats follow.
func (r *Queues) sendPolls(ctx context.Context, polls []queuePoll) {
	calls := make([]wire.Call, len(polls))
	for i, p := range polls {
		calls[i] = p.call()
	}
	var refused []wire.Call
	var movingPolls []queuePoll
	for i, outcome := range r.session.Runner.RunMany(ctx, calls) {
		if outcome.Err != nil {
			if wire.TryAgain(outcome.Err) {
				refused = append(refused, polls[i].heartbeatCall())
				movingPolls = append(movingPolls, polls[i])
			}
			polls[i].recordFailure(outcome.Err)
			continue
		}
		polls[i].handleReply(outcome.Reply)
	}
	if len(refused) > 0 {
		r.pollWithHolderKey(ctx, movingPolls, refused)
	}
}

// pollWithHolderKey sends heartbeats for polls that were refused because their slot is being moved, and polls with the
// holder key alone, which extend the hold of an attempt that has the lock.
func (r *Queues) pollWithHolderKey(ctx context.Context, polls []queuePoll, calls []wire.Call) {
	if !r.protocol.isExclusive() {
		r.session.Runner.RunMany(ctx, calls)
		return
	}
	for i := range polls {
		calls = append(calls, withHolderKeyAlone(polls[i].call()))
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
		attempts.WriteString(a.id())
		attempts.WriteString(a.request.Mode)
	}
	poll := proto.Poll{
		Session: s.ID(), HeartbeatUS: micros(p.heartbeat.life), Number: p.heartbeat.number, Label: s.Settings.Label,
		Verb: s.PublishCommand(), Channel: q.channel(), Attempts: attempts.String(), KeepMS: p.floorTTL,
	}
	return wire.Call{Script: q.registry.protocol.Poll, Keys: q.keys.AppendKeys(nil), Args: poll.AppendTo(nil)}
}

func (p *queuePoll) heartbeatCall() wire.Call {
	s, keys := p.q.registry.session, p.q.keys.AppendKeys(nil)
	h := proto.QueueHeartbeat{Session: s.ID(), HeartbeatUS: micros(p.heartbeat.life), Number: p.heartbeat.number, Label: s.Settings.Label}
	return wire.Call{Script: proto.QueueHeartbeatScript, Keys: keys[len(keys)-1:], Args: h.AppendTo(nil)}
}

// recordFailure handles a poll that had no reply, or was refused. The next poll comes early, because the session's life in
// the queue continues to run down.
func (p *queuePoll) recordFailure(err error) {
	registry := p.q.registry
	registry.mu.Lock()
	defer registry.mu.Unlock()
	hadRight := p.q.polledAt != 0 && errors.Is(err, errs.ErrDenied) // an earlier poll was allowed
	if wire.Judge(err) == wire.Final && !hadRight {
		p.q.refuseLocked(err)
	}
	p.q.pollErr = err
	p.q.schedulePollLocked(notify.PollInterval / 4)
}

// refuseLocked ends the attempts of q, because waiting does not help them.
func (q *Queue) refuseLocked(err error) {
	for a := range q.waiting.all() {
		if a.state == entering || a.state == queued {
			a.toLocked(over)
			a.waitLocked().refusal = err
			a.wake()
		}
	}
}

func (p *queuePoll) handleReply(reply wire.Reply) {
	polled := proto.ReadPolled(&reply)
	registry, q, now := p.q.registry, p.q, timers.Now()
	registry.mu.Lock()
	defer registry.mu.Unlock()
	if polled.Code != wire.Done {
		q.refuseLocked(proto.WrongKind(polled.Kind))
		return
	}
	registry.session.Clock.Observe(q.keys.Slot, polled.Now, now)
	q.clearPollErrLocked()
	q.recordHeartbeatLocked(p.heartbeat.sent)
	q.polledStamp, q.polledAt, q.holdEnds = 0, p.heartbeat.sent.Mono(), p.heartbeat.sent.Mono()+polled.Left
	if registry.protocol.Heartbeat != nil && polled.Left > 0 {
		q.polledStamp = polled.Stamp
	}
	has := make(map[string]bool) // the ids of the attempts that have the lock
	for g := range parseGrants(polled.Grants) {
		has[g.attempt] = true
		registry.applyGrantLocked(g, now)
	}
	pollAgain := polled.PollAtOnce
	for i, a := range p.listed {
		if a.state == queued && i < len(polled.States) && polled.States[i] == '0' && !has[a.id()] {
			a.toLocked(ticketLost)
			if a.waitLocked().refusal = errTicketLost; polled.Left > 0 {
				a.wait.refusal = errTicketLostWhileHeld
			}
			a.wake()
			q.lastHeartbeat = timers.Instant{}                       // the heartbeat may be lost too: the next enter carries one
			pollAgain = pollAgain || q.waiting.len() > len(p.listed) // attempts that are not listed have lost their tickets too
		}
	}
	if !registry.protocol.isExclusive() && polled.Unlisted != "" {
		registry.leaveAgainLocked(polled.Unlisted)
	}
	if pollAgain {
		q.pollLocked()
		return
	}
	q.schedulePollLocked(polled.Left)
}

// schedulePollLocked schedules the next poll: after a pause, or when the hold of another session ends, after left at the
// latest.
func (q *Queue) schedulePollLocked(left time.Duration) {
	if q.pending == 0 {
		return
	}
	now := timers.Mono()
	q.pollScheduled, q.pollDue = true, q.nextPollLocked(now)
	if in := q.pollDue - now; left > 0 && left < in {
		spread := time.Duration(q.registry.mu.pendingQueues) * notify.PollCost
		q.pollDue = now + min(left+time.Millisecond+rand.N(spread+1), in)
	}
	q.registry.session.Timers.Schedule(&q.timer, q.pollDue-now)
}

// nextPollLocked returns when the next poll is due: after eight to nine tenths of a pause. The polls of all queues of the
// session fall on the same instants, so that many fit in one call. The polls of several sessions drift apart.
func (q *Queue) nextPollLocked(now time.Duration) time.Duration {
	pause := q.pollPauseLocked()
	next, grid := now+pause*9/10, pause/10-time.Duration(q.registry.drift*float64(pause))
	return next - (next+q.registry.phase)%grid
}

// hastenPollLocked brings the next poll forward if a poll that is scheduled now comes earlier.
func (q *Queue) hastenPollLocked() {
	if q.waitState != nil && q.pollScheduled && q.nextPollLocked(timers.Mono()) < q.pollDue {
		q.schedulePollLocked(0)
	}
}
