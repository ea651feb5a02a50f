// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

const (
	// maxListed is how many attempts a look lists: the first ones, which may have been granted, and
	// some of the others in turn, which may have lost their place.
	maxListed, maxFirst = 16, 4
	// lookPatience is how long a batch of looks waits for its answer.
	lookPatience = time.Second
	// maxLooks bounds a pipeline.
	maxLooks = 200
)

// look is one look at a line, or a heartbeat alone.
type look struct {
	q      *Queue
	beat   beat
	listed []*Attempt
	floor  string // see Wish
}

// lookAll looks at a tick's worth of lines.
func (ls *Lines) lookAll(queues []*Queue) {
	ctx, cancel := errs.WithTimeout(ls.ctx, lookPatience)
	defer cancel()
	looks := make([]look, 0, len(queues))
	asked := make(map[*Queue]bool, len(queues))
	for _, q := range queues {
		if !asked[q] {
			asked[q] = true
			looks = ls.prepare(looks, q)
		}
	}
	for len(looks) > 0 {
		n := min(len(looks), maxLooks)
		ls.lookTogether(ctx, looks[:n])
		looks = looks[n:]
	}
}

// prepare adds a look at q, unless no attempt enters or waits there: then none has come for a while.
func (ls *Lines) prepare(looks []look, q *Queue) []look {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if q.comers == 0 {
		ls.dropLocked(q)
		return looks
	}
	q.waitsLocked()
	q.planned = false
	return append(looks, look{q: q, beat: ls.beatLocked(clock.Now()), listed: q.listLocked(), floor: q.wish.Floor})
}

// listLocked chooses the attempts that a look lists: of those whose entering was answered the
// urgent ones, the first, and others in turn.
func (q *Queue) listLocked() []*Attempt {
	listed := make([]*Attempt, 0, min(maxListed, len(q.waiting)))
	chosen := make(map[*Attempt]bool, cap(listed))
	add := func(a *Attempt) {
		if (a.state == inLine || a.urgent) && !chosen[a] && len(listed) < maxListed {
			chosen[a] = true
			listed = append(listed, a)
		}
	}
	for _, a := range q.waiting {
		if a.urgent {
			add(a)
			a.urgent = false
		}
	}
	for _, a := range q.waiting[:min(maxFirst, len(q.waiting))] {
		add(a)
	}
	for range q.waiting {
		if len(listed) == maxListed {
			break // the turn of the others comes
		}
		q.turn = (q.turn + 1) % len(q.waiting)
		add(q.waiting[q.turn])
	}
	return listed
}

// lookTogether sends looks in one pipeline, and heartbeats alone for the lines that refuse them
// because their slot is on the move.
func (ls *Lines) lookTogether(ctx context.Context, looks []look) {
	calls := make([]wire.Call, len(looks))
	for i, l := range looks {
		calls[i] = l.call()
	}
	var refused []wire.Call
	var alone []look
	for i, outcome := range ls.session.Runner.RunMany(ctx, calls) {
		if outcome.Err != nil {
			if wire.TryAgain(outcome.Err) {
				refused = append(refused, looks[i].beatCall())
				alone = append(alone, looks[i])
			}
			looks[i].failed(outcome.Err)
			continue
		}
		looks[i].answered(outcome.Reply)
	}
	if len(refused) > 0 {
		ls.lookAlone(ctx, alone, refused)
	}
}

// lookAlone sends heartbeats for looks that were refused because their slot is being moved, and looks with the holder key
// alone: what has the lock is lengthened by that.
func (ls *Lines) lookAlone(ctx context.Context, looks []look, calls []wire.Call) {
	if ls.kind.Requeue == nil {
		ls.session.Runner.RunMany(ctx, calls)
		return
	}
	for i := range looks {
		calls = append(calls, looks[i].q.alone(looks[i].call()))
	}
	for i, outcome := range ls.session.Runner.RunMany(ctx, calls)[len(looks):] {
		if outcome.Err == nil {
			looks[i].answered(outcome.Reply)
		}
	}
}

func (l *look) call() wire.Call {
	q, s := l.q, l.q.lines.session
	var attempts strings.Builder
	for _, a := range l.listed {
		attempts.WriteString(a.attempt())
		attempts.WriteString(a.wish.Mark)
	}
	return wire.Call{
		Script: q.lines.kind.Look,
		Keys:   q.keys.All,
		Args: []string{
			s.ID(), micros(l.beat.life), l.beat.number, s.Settings.Label,
			s.Publish(), q.keys.Grants, attempts.String(), l.floor,
		},
	}
}

func (l *look) beatCall() wire.Call {
	s := l.q.lines.session
	return wire.Call{
		Script: scripts.LineBeat,
		Keys:   []string{l.q.keys.Lives},
		Args:   []string{s.ID(), micros(l.beat.life), l.beat.number, s.Settings.Label},
	}
}

// failed takes a look that was not answered, or refused: the next comes early, since a life counts on.
func (l *look) failed(err error) {
	ls := l.q.lines
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if wire.Judge(err) == wire.Final {
		l.q.refuseLocked(err)
	}
	l.q.last = err
	l.q.scheduleLocked(lookEvery / 4)
}

// refuseLocked ends the attempts of q: waiting does not help them.
func (q *Queue) refuseLocked(err error) {
	for _, a := range q.waiting {
		if a.state == entering || a.state == inLine {
			a.state, a.refusal = over, err
			a.wake()
		}
	}
}

// answered takes the answer to a look.
func (l *look) answered(reply wire.Reply) {
	ls, q, now := l.q.lines, l.q, clock.Now()
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if reply.Code() != wire.Done {
		q.refuseLocked(session.WrongKind(reply.Text(1)))
		return
	}
	ls.session.Clock.Told(q.keys.Slot, reply.Stamp(5), now)
	q.repliedLocked()
	q.heardLocked(l.beat.sent)
	has := make(map[string]bool) // by attempt
	for g := range grants(reply.Text(3)) {
		has[g.attempt] = true
		ls.grantedLocked(g, now)
	}
	more := reply.Int(2) == 1
	places := reply.Text(4)
	for i, a := range l.listed {
		if a.state == inLine && i < len(places) && places[i] == '0' && !has[a.attempt()] {
			a.state = gone
			a.wake()
			more = true // where one has lost its place, others have that are not listed
		}
	}
	if more {
		ls.looks.Put(q)
		return
	}
	q.scheduleLocked(time.Duration(reply.Int(1)) * time.Microsecond)
}

// scheduleLocked schedules the next look: in a while, or when the hold of another, which lasts for left
// at the most, has ended.
func (q *Queue) scheduleLocked(left time.Duration) {
	if q.comers == 0 {
		return
	}
	q.planned = true
	in := q.pauseLocked()
	if left > 0 && left < in {
		turn := time.Duration(q.lines.mu.waited) * lookCost
		in = min(left+time.Millisecond+rand.N(turn+1), in)
	}
	q.due = clock.Now().Mono() + in
	q.lines.session.Timers.Schedule(&q.next, in)
}

func (q *Queue) pauseLocked() time.Duration {
	every := q.everyLocked()
	return every*4/5 + rand.N(every/5)
}

// hastenLocked brings the next poll forward if one that is planned now comes earlier.
func (q *Queue) hastenLocked() {
	if q.wait != nil && q.planned && clock.Now().Mono()+q.pauseLocked() < q.due {
		q.scheduleLocked(0)
	}
}
