// SPDX-License-Identifier: Apache-2.0

package retry

import (
	"time"

	"github.com/signalbox-go/signalbox/internal/acquire/queue"
	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/timers"
)

// StandBack is how long a session does not try after a release that others were notified of. Otherwise it
// would be granted the lock again before the message arrives.
const BackOff = 2 * time.Millisecond

// contest is one lock for which a session tries. The lock of its Contests guards its fields.
type contest struct {
	contests *LockRegistry
	keys     queue.LockKeys // assigned once

	users  int
	living int // attempts that are not over, or whose release has no reply yet

	standBack clock.Instant // until when this session does not try
	forgotten timers.Timer  // the end of a contest without users, which is kept until then
}

// Done implements queue.Asker. A contest that stands back is kept for a newcomer.
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

// busy reports whether another call of this session has, wants or releases the lock. If several can have
// the lock at once, such a call does not matter.
func (q *contest) busy(wish *queue.Request) bool {
	q.contests.mu.Lock()
	defer q.contests.mu.Unlock()
	return !wish.Shared && q.living > 0
}

// vacate says that a no longer has the lock. heard says that others were notified of that: they are to try
// first.
func (a *attempt) vacate(heard bool) { //nolint:revive // a fact about the release, not a switch
	q := a.queue
	q.contests.mu.Lock()
	defer q.contests.mu.Unlock()
	q.living--
	if heard {
		q.standBack = clock.Now().Add(BackOff)
	}
}

// standsBack returns how long this session is not to try.
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
