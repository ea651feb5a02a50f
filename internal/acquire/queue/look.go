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
	// lookPatience is how long a batch of polls waits for its reply.
	pollPatience = time.Second
	// maxPolls bounds a pipeline, and maxWaits the locks of one call in it.
	maxPolls, maxHeartbeats = 200, 100
	// thorough is how many pauses there are between two polls though nothing has changed.
	pollAnywayAfter = 16
)

// look is one poll of a queue, or a heartbeat alone.
type queuePoll struct {
	q              *Queue
	heartbeat      heartbeat
	unchangedStamp wire.Stamp // of the hold beside which a heartbeat will do; 0 is a poll
	listed         []*Attempt
	floorTTL       string // see Wish
}

// lookAll polls the queues that are due in one tick.
func (ls *Registry) pollAll(queues []*Queue) {
	ctx, cancel := errs.WithTimeout(ls.ctx, pollPatience)
	defer cancel()
	looks := make([]queuePoll, 0, len(queues))
	asked := make(map[*Queue]bool, len(queues))
	for _, q := range queues {
		if !asked[q] {
			asked[q] = true
			looks = ls.appendPoll(looks, q)
		}
	}
	looks = ls.sendHeartbeats(ctx, looks)
	for len(looks) > 0 {
		n := min(len(looks), maxPolls)
		ls.sendPolls(ctx, looks[:n])
		looks = looks[n:]
	}
}

// prepare adds a poll of q, unless no attempt enters or waits there, and none has for a while.
func (ls *Registry) appendPoll(looks []queuePoll, q *Queue) []queuePoll {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if q.pending == 0 {
		ls.dropLocked(q)
		return looks
	}
	q.initWaitLocked()
	q.pollScheduled = false
	now := clock.Now()
	l := queuePoll{q: q, heartbeat: ls.heartbeatLocked(now)}
	if q.isUnchangedLocked(now) {
		l.unchangedStamp = q.seenStamp
	} else {
		l.listed, l.floorTTL = q.listLocked(), q.newestRequest.FloorTTL
	}
	return append(looks, l)
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

// lookTogether sends polls in one pipeline, and heartbeats alone for the queues that refuse them because
// their slot is being moved.
func (ls *Registry) sendPolls(ctx context.Context, looks []queuePoll) {
	calls := make([]wire.Call, len(looks))
	for i, l := range looks {
		calls[i] = l.call()
	}
	var refused []wire.Call
	var alone []queuePoll
	for i, outcome := range ls.session.Runner.RunMany(ctx, calls) {
		if outcome.Err != nil {
			if wire.TryAgain(outcome.Err) {
				refused = append(refused, looks[i].heartbeatCall())
				alone = append(alone, looks[i])
			}
			looks[i].recordFailure(outcome.Err)
			continue
		}
		looks[i].handleReply(outcome.Reply)
	}
	if len(refused) > 0 {
		ls.pollWithHolderKey(ctx, alone, refused)
	}
}

// lookAlone sends heartbeats for polls that were refused because their slot is being moved, and polls with
// the holder key alone, which lengthen the hold of an attempt that has the lock.
func (ls *Registry) pollWithHolderKey(ctx context.Context, looks []queuePoll, calls []wire.Call) {
	if !ls.config.isExclusive() {
		ls.session.Runner.RunMany(ctx, calls)
		return
	}
	for i := range looks {
		calls = append(calls, looks[i].q.withHolderKeyAlone(looks[i].call()))
	}
	for i, outcome := range ls.session.Runner.RunMany(ctx, calls)[len(looks):] {
		if outcome.Err == nil {
			looks[i].handleReply(outcome.Reply)
		}
	}
}

func (l *queuePoll) call() wire.Call {
	q, s := l.q, l.q.registry.session
	var attempts strings.Builder
	for _, a := range l.listed {
		attempts.WriteString(a.attempt())
		attempts.WriteString(a.request.Mode)
	}
	return wire.Call{
		Script: q.registry.config.Poll,
		Keys:   q.keys.All,
		Args: []string{
			s.ID(), micros(l.heartbeat.life), l.heartbeat.number, s.Settings.Label,
			s.PublishCommand(), q.keys.Channel, attempts.String(), l.floorTTL,
		},
	}
}

func (l *queuePoll) heartbeatCall() wire.Call {
	s := l.q.registry.session
	return wire.Call{
		Script: scripts.QueueHeartbeat,
		Keys:   []string{l.q.keys.All[len(l.q.keys.All)-1]},
		Args:   []string{s.ID(), micros(l.heartbeat.life), l.heartbeat.number, s.Settings.Label},
	}
}

// failed handles a poll that had no reply, or was refused: the next one comes early, because the life
// continues to run down.
func (l *queuePoll) recordFailure(err error) {
	ls := l.q.registry
	ls.mu.Lock()
	defer ls.mu.Unlock()
	hadRight := l.q.polledAt != 0 && errors.Is(err, errs.ErrDenied) // for the poll before
	if wire.Judge(err) == wire.Final && !hadRight {
		l.q.refuseLocked(err)
	}
	l.q.pollErr = err
	l.q.schedulePollLocked(dispatch.PollInterval / 4)
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

// replied handles the reply to a poll.
func (l *queuePoll) handleReply(reply wire.Reply) {
	ls, q, now := l.q.registry, l.q, clock.Now()
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if reply.Code() != wire.Done {
		q.refuseLocked(session.WrongKind(reply.Text(1)))
		return
	}
	ls.session.Clock.Observe(q.keys.Slot, reply.Stamp(5), now)
	q.clearPollErrLocked()
	q.recordHeartbeatLocked(l.heartbeat.sent)
	left := time.Duration(reply.Int(1)) * time.Microsecond
	q.seenStamp, q.polledAt, q.holdEnds = 0, l.heartbeat.sent.Mono(), l.heartbeat.sent.Mono()+left
	if ls.config.Heartbeat != nil && left > 0 {
		q.seenStamp = reply.Stamp(6)
	}
	has := make(map[string]bool) // by attempt
	for g := range parseGrants(reply.Text(3)) {
		has[g.attempt] = true
		ls.applyGrantLocked(g, now)
	}
	more := reply.Int(2) == 1
	places := reply.Text(4)
	for i, a := range l.listed {
		if a.state == queued && i < len(places) && places[i] == '0' && !has[a.attempt()] {
			a.state, a.lockWasHeld = ticketLost, left > 0
			a.wake()
			q.lastHeartbeat = clock.Instant{}             // the life may be lost too: the next enter is a heartbeat
			more = more || len(q.waiting) > len(l.listed) // those that are not listed have lost theirs too
		}
	}
	if more {
		q.pollLocked()
		return
	}
	q.schedulePollLocked(left)
}

// scheduleLocked schedules the next poll: after a pause, or when the hold of another session ends, which
// lasts for left at most.
func (q *Queue) schedulePollLocked(left time.Duration) {
	if q.pending == 0 {
		return
	}
	now := clock.Now().Mono()
	q.pollScheduled, q.pollDue = true, q.nextPollLocked(now)
	if in := q.pollDue - now; left > 0 && left < in {
		turn := time.Duration(q.registry.mu.pendingQueues) * dispatch.PollCost
		q.pollDue = now + min(left+time.Millisecond+rand.N(turn+1), in)
	}
	q.registry.session.Timers.Schedule(&q.timer, q.pollDue-now)
}

// nextLocked returns when the next poll is due: after eight to nine tenths of a pause. The polls of all queues of the
// session fall on the same instants, so that many fit in one call. Those of several sessions drift apart.
func (q *Queue) nextPollLocked(now time.Duration) time.Duration {
	every := q.pollPauseLocked()
	next, grid := now+every*9/10, every/10-time.Duration(q.registry.drift*float64(every))
	return next - (next+q.registry.phase)%grid
}

// hastenLocked brings the next poll forward if one that is planned now comes earlier.
func (q *Queue) hastenPollLocked() {
	if q.waitState != nil && q.pollScheduled && q.nextPollLocked(clock.Now().Mono()) < q.pollDue {
		q.schedulePollLocked(0)
	}
}
