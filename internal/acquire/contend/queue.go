// SPDX-License-Identifier: Apache-2.0

package contend

import (
	"slices"
	"time"

	"github.com/signalbox-go/signalbox/internal/acquire/queue"
	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/timers"
)

// StandBack is for how long a session does not try after a release that others were notified of. Otherwise it
// would be granted the lock again before the message arrives.
const StandBack = 2 * time.Millisecond

// contest is one lock, as one session waits for it. Its fields are guarded by the lock of its Contests.
type contest struct {
	contests *Contests
	keys     queue.Keys // assigned once

	users    int
	attempts int      // those that may have something on the server
	living   int      // those that are not over
	alone    *attempt // who has the lock alone, from Leave until the release was answered
	lanes    [2]lane  // of those who want the lock alone, and of those who may have it beside others

	standBack clock.Instant // until when this session does not try
	forgotten timers.Entry  // the end of a queue without users, which is kept until then
}

// lane is those who wait, as they came. The first has the turn.
type lane []*place

// Done implements queue.Asker. A queue that stands back is kept for whoever comes meanwhile.
func (q *contest) Done() {
	c := q.contests
	c.mu.Lock()
	defer c.mu.Unlock()
	if q.users--; q.users > 0 {
		return
	}
	if left := q.standsBackLocked(); left > 0 && c.session.Ready() == nil {
		c.session.Timers.Schedule(&q.forgotten, left)
		return
	}
	delete(c.mu.queues, q.keys.Holder)
}

// Fire implements timers.Event.
func (q *contest) Fire() {
	c := q.contests
	c.mu.Lock()
	defer c.mu.Unlock()
	if q.users == 0 && c.mu.queues[q.keys.Holder] == q {
		delete(c.mu.queues, q.keys.Holder)
	}
}

// laneOf returns where those wait who have that wish.
func (q *contest) laneOf(wish *queue.Wish) *lane {
	if wish.Beside {
		return &q.lanes[1]
	}
	return &q.lanes[0]
}

// busy reports whether another call of this session is before whoever comes with that wish: it has, wants or
// releases the lock; or, if several can have it at once, waits for it.
func (q *contest) busy(wish *queue.Wish) bool {
	q.contests.mu.Lock()
	defer q.contests.mu.Unlock()
	switch {
	case wish.Beside:
		return len(*q.laneOf(wish)) > 0
	case q.contests.kind.WaitsHere:
		return q.living > 0 || q.alone != nil
	}
	return q.attempts > 0
}

// join puts a place into its lane.
func (q *contest) join(p *place) {
	q.contests.mu.Lock()
	defer q.contests.mu.Unlock()
	l := q.laneOf(p.wish)
	*l = append(*l, p)
}

// hasTurn reports whether p is to try.
func (q *contest) hasTurn(p *place) bool {
	if q.contests.kind.Each {
		return true
	}
	q.contests.mu.Lock()
	defer q.contests.mu.Unlock()
	l := *q.laneOf(p.wish)
	return len(l) > 0 && l[0] == p
}

// isOurs reports whether this session has the lock alone. If its waiters wait here, a release that is on its
// way counts as well: a try that overtook it would find the lock held.
func (q *contest) isOurs() bool {
	q.contests.mu.Lock()
	defer q.contests.mu.Unlock()
	return q.alone != nil
}

// vacate says that a has the lock no more, and gives the turn to whoever waits in this session. heard
// says that others were notified of that: they are to try first.
func (a *attempt) vacate(heard bool) { //nolint:revive // a fact about the release, not a switch
	q := a.queue
	q.contests.mu.Lock()
	defer q.contests.mu.Unlock()
	if heard {
		q.standBack = clock.Now().Add(StandBack)
	}
	if q.alone != a {
		return
	}
	q.alone = nil
	for _, l := range q.lanes {
		if len(l) > 0 {
			l[0].wake()
		}
	}
}

// standsBack returns for how long this session is not to try.
func (q *contest) standsBack() time.Duration {
	q.contests.mu.Lock()
	defer q.contests.mu.Unlock()
	return q.standsBackLocked()
}

func (q *contest) standsBackLocked() time.Duration {
	if q.standBack.IsZero() {
		return 0
	}
	return q.standBack.Mono() - clock.Now().Mono()
}

// part takes p out of its lane, and gives the turn to the next. It reports whether p was granted the lock: then its
// attempt is begun.
func (q *contest) part(p *place) (isGranted bool) {
	q.contests.mu.Lock()
	defer q.contests.mu.Unlock()
	l := q.laneOf(p.wish)
	if i := slices.Index(*l, p); i >= 0 {
		if *l = slices.Delete(*l, i, i+1); i == 0 && len(*l) > 0 {
			(*l)[0].wake()
		}
	}
	a := p.attempt
	if isGranted = a.state == granted; isGranted {
		a.beginLocked()
	}
	return isGranted
}
