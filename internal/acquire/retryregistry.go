// SPDX-License-Identifier: Apache-2.0

package acquire

import (
	"sync"
	"time"

	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/queue"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// RetryConfig describes a kind of lock without a queue.
type RetryConfig struct {
	*proto.Retry

	Keys   func(n proto.Set) proto.Keys
	Layout *proto.Layout
	// Refusal returns the error if Acquire replied wire.TooFew or wire.OtherCapacity, with the capacity.
	Refusal func(code wire.Code, capacity int64) error
}

// RetryRegistry keeps the retried locks of one kind in one session. It waits without a queue at the server: the first session that
// tries has the lock. It is for layouts that keep no tickets, and has the same interface as queue.Queues, so a hold does not know
// which of the two granted it.
//
// # What it is
//
// A waiter tries (proto.Retry.Acquire). If the lock is held, it waits for a message on the lock's
// channel or for a poll (package notify), and tries again. There is no queue: a session that tries at the
// right instant has the lock. Package waitroom decides which goroutine of a session tries: one at a time,
// unless each goroutine has a channel of its own.
//
// # Guarantees
//
//  1. An attempt has a hold of its own, and repeats its tries under that. If the reply to a try was lost and the try
//     acquired the lock, the next try extends that hold.
//  2. No leak: if a try has an unknown outcome, the hold is released in the background when the attempt ends, and again
//     after the not-after, if a copy of the try may arrive late.
//  3. Every wait is bounded, and misses no release: package notify has the bounds.
//  4. After a release that others were notified of (reply 2), the session does not try for BackOff: otherwise it would
//     be granted the lock again before the message arrives. Try does not wait for that.
//
// # Not guaranteed
//
// Order between processes, and that every waiter is served: a waiter starves if others always try before
// it. The scripts of a layout may do something about that.
//
// # States of an attempt
//
//	requesting --a try acquires the lock--> granted --Release, Abandon--> over
//	  |                                                                   ^
//	  +--- the wait ends -------------------------------------------------+
//
// The release of an attempt that may have something on the server is repeated until it has a reply. Then
// the attempt is forgotten.
//
// # Locking
//
// One mutex guards all retried locks of a kind in a session. No request is sent while it is locked. It is locked before
// the mutexes of the timers, the undoer and the dispatcher.
type RetryRegistry struct {
	session *session.Session
	config  RetryConfig

	mu struct {
		sync.Mutex
		locks    map[string]*retriedLock // by holder key, the locks in use
		attempts map[*attempt]struct{}   // the attempts that may have something on the server
	}
}

// NewRetryRegistry returns the registry of s. It starts nothing.
func NewRetryRegistry(s *session.Session, kind RetryConfig) *RetryRegistry {
	registry := &RetryRegistry{session: s, config: kind}
	registry.mu.locks = make(map[string]*retriedLock)
	registry.mu.attempts = make(map[*attempt]struct{})
	return registry
}

// verb returns the command with which scripts publish. It is known after the handshake with the server.
func (r *RetryRegistry) verb() string { return r.session.PublishCommandsIn(r.config.Layout) }

// begin returns the lock with these names, and counts the caller, or the hold that it will have, as a user of the lock and in
// the session. It returns why the session accepts no caller.
func (r *RetryRegistry) begin(n *proto.Set) (*retriedLock, error) {
	if err := r.session.Begin(); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	q := r.mu.locks[n.Holder]
	if q == nil {
		q = &retriedLock{registry: r, names: *n, keys: r.config.Keys(*n)}
		q.expiry.Init(q)
		r.mu.locks[n.Holder] = q
	}
	q.users++
	r.session.Timers.Cancel(&q.expiry)
	return q, nil
}

// Len returns how many locks are in use, and how many attempts may have something on the server.
func (r *RetryRegistry) Len() (queues, attempts int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.mu.locks), len(r.mu.attempts)
}

// Refuse implements session.KindRegistry. The dispatcher wakes all waiters, which find that the session is not ready.
func (*RetryRegistry) Refuse(error) {}

// Close implements session.KindRegistry. The undoer ends the calls that are under way.
func (*RetryRegistry) Close() {}

// LocalHolds implements session.HoldRegistry.
func (r *RetryRegistry) LocalHolds(key string, recheck bool) []session.LocalHold {
	r.mu.Lock()
	defer r.mu.Unlock()
	var holds []session.LocalHold
	for a := range r.mu.attempts {
		switch {
		case key != "" && a.lock.names.Holder != key:
		case a.localHold != nil:
			holds = append(holds, a.localHold)
		default:
			a.needsRecheck = a.needsRecheck || recheck && !a.footprint.IsEmpty()
		}
	}
	return holds
}

// BackOff is how long a session does not try after a release that others were notified of. Otherwise it
// would be granted the lock again before the message arrives.
const BackOff = 2 * time.Millisecond

// retriedLock is one lock for which a session tries. The mutex of the RetryRegistry guards the fields.
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
