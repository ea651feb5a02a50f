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
type retriedLock struct {
	registry *LockRegistry
	keys     queue.LockKeys // assigned once

	users      int
	unfinished int // attempts that are not over, or whose release has no reply yet

	backOffUntil clock.Instant // until when this session does not try
	expiry       timers.Timer  // the end of a contest without users, which is kept until then
}

// Done implements queue.Asker. A contest that stands back is kept for a newcomer.
func (q *retriedLock) Done() {
	c := q.registry
	c.mu.Lock()
	defer c.mu.Unlock()
	if q.users--; q.users > 0 {
		return
	}
	if left := q.backOffLeftLocked(); left > 0 && c.session.Ready() == nil {
		c.session.Timers.Schedule(&q.expiry, left)
		return
	}
	delete(c.mu.locks, q.keys.Holder)
}

// Fire implements timers.Event.
func (q *retriedLock) Fire() {
	c := q.registry
	c.mu.Lock()
	defer c.mu.Unlock()
	if q.users == 0 && c.mu.locks[q.keys.Holder] == q {
		delete(c.mu.locks, q.keys.Holder)
	}
}

// busy reports whether another call of this session has, wants or releases the lock. If several can have
// the lock at once, such a call does not matter.
func (q *retriedLock) busy(wish *queue.Request) bool {
	q.registry.mu.Lock()
	defer q.registry.mu.Unlock()
	return !wish.Concurrent && q.unfinished > 0
}

// vacate says that a no longer has the lock. heard says that others were notified of that: they are to try
// first.
func (a *attempt) finish(heard bool) { //nolint:revive // a fact about the release, not a switch
	q := a.lock
	q.registry.mu.Lock()
	defer q.registry.mu.Unlock()
	q.unfinished--
	if heard {
		q.backOffUntil = clock.Now().Add(BackOff)
	}
}

// standsBack returns how long this session is not to try.
func (q *retriedLock) backOffLeft() time.Duration {
	q.registry.mu.Lock()
	defer q.registry.mu.Unlock()
	return q.backOffLeftLocked()
}

func (q *retriedLock) backOffLeftLocked() time.Duration {
	if q.backOffUntil.IsZero() {
		return 0
	}
	return q.backOffUntil.Mono() - clock.Now().Mono()
}
