// SPDX-License-Identifier: Apache-2.0

package acquire

import (
	"time"

	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/queue"
	"github.com/signalbox-go/signalbox/internal/timers"
)

// BackOff is how long a session does not try after a release that others were notified of. Otherwise it
// would be granted the lock again before the message arrives.
const BackOff = 2 * time.Millisecond

// retriedLock is one lock for which a session tries. The mutex of the LockRegistry guards the fields.
type retriedLock struct {
	registry *RetryRegistry
	names    proto.Set // assigned once, as are the keys
	keys     proto.Keys

	users      int
	unfinished int // the number of attempts that are not over, or have no reply to their release yet

	backOffUntil timers.Instant // the end of the time in which this session does not try
	expiry       timers.Timer   // forgets a lock without users, which is kept until then
}

// done counts out, of the lock and of the session, a call or a hold that begin counted. While the session backs off, the lock is
// kept for a newcomer.
func (l *retriedLock) done() {
	registry := l.registry
	defer registry.session.End()
	registry.mu.Lock()
	defer registry.mu.Unlock()
	if l.users--; l.users > 0 {
		return
	}
	if left := l.backOffLeftLocked(); left > 0 && registry.session.Ready() == nil {
		registry.session.Timers.Schedule(&l.expiry, left)
		return
	}
	delete(registry.mu.locks, l.names.Holder)
}

// Fire implements timers.Firer.
func (l *retriedLock) Fire() {
	registry := l.registry
	registry.mu.Lock()
	defer registry.mu.Unlock()
	if l.users == 0 && registry.mu.locks[l.names.Holder] == l {
		delete(registry.mu.locks, l.names.Holder)
	}
}

// busy reports whether another call of this session holds, requests or releases the lock. If several calls can hold the lock
// at once, it returns false.
func (l *retriedLock) busy(request *queue.Request) bool {
	l.registry.mu.Lock()
	defer l.registry.mu.Unlock()
	return !request.Concurrent && l.unfinished > 0
}

// finish records that a no longer has the lock. othersNotified says that other sessions were notified: they are to try
// first.
func (a *attempt) finish(othersNotified bool) { //nolint:revive // a fact about the release, not a switch
	q := a.lock
	q.registry.mu.Lock()
	defer q.registry.mu.Unlock()
	q.unfinished--
	if othersNotified {
		q.backOffUntil = timers.Now().Add(BackOff)
	}
}

// backOffLeft returns for how long this session is not to try.
func (l *retriedLock) backOffLeft() time.Duration {
	l.registry.mu.Lock()
	defer l.registry.mu.Unlock()
	return l.backOffLeftLocked()
}

func (l *retriedLock) backOffLeftLocked() time.Duration {
	if l.backOffUntil.IsZero() {
		return 0
	}
	return l.backOffUntil.Mono() - timers.Mono()
}
