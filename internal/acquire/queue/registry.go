// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/signalbox-go/signalbox/internal/acquire/local"
	"github.com/signalbox-go/signalbox/internal/dispatch"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// Config describes how one kind of lock uses the queue. The arguments and replies of its steps are those of
// package scripts; Enter has those of the Wish behind them.
type Protocol struct {
	Enter, Poll, Leave *scripts.Script
	// Heartbeat announces for many locks that the session waits for them. It is a heartbeat; those locks whose
	// holder has changed are polled next. A kind without Wait is polled each time.
	Heartbeat *scripts.Script
	// Drop ends a hold with the holder key alone, while a slot moves. A kind whose other scripts also need
	// only that key has Requeue instead, which releases a hold and queues the session again in one call. Such
	// a kind is exclusive.
	Drop, Requeue *scripts.Script
	// Labelled says that holds are written down with the label of their session, and are named with it.
	Labelled bool
	// Refusal returns the error for a reply of Enter below -2.
	Refusal func(wire.Reply) error
}

// isExclusive reports whether one hold at a time has a lock of the kind.
func (p *Protocol) isExclusive() bool { return p.Requeue != nil }

// Request is what an attempt asks for.
type Request struct {
	Life time.Duration // of the hold, if it is granted at once
	// FloorTTL is how long the floor of the tokens is kept when the lock is idle, in milliseconds, as an
	// argument of scripts.
	FloorTTL string
	// Mode follows the hold id in the ticket and in the name of the hold: what scripts have to know of each.
	// All marks of a kind have the same length.
	Mode string
	// Args are those of Enter that other kinds do not have.
	Args []string
	// ShareKey is the request with which goroutines wait for each other in the process; zero if each has a ticket of its own.
	ShareKey local.ShareKey
	// Concurrent says that others of the session may have the lock at the same time.
	Concurrent bool
}

// Registry has the queues of one kind of lock in one session.
type Registry struct {
	session  *session.Session
	protocol Protocol
	polls    *timers.Collector[*Queue]
	ctx      context.Context //nolint:containedctx // ends at Close, for the polls under way
	cancel   context.CancelFunc
	// The polls of several lines of the session meet in one call, by its phase. Those of several sessions would too if an
	// outage struck them together: so each session has another drift, up to a hundredth of a pause.
	phase time.Duration
	drift float64

	mu struct {
		sync.Mutex
		queues        map[string]*Queue         // by holder key; those in use, those in which an attempt waited a moment ago, and spare ones
		spare         int                       // of them
		pendingQueues int                       // those in which an attempt enters or waits
		attempts      map[string]*Attempt       // by attempt; those that may have something on the server
		listeners     map[string]*grantListener // by channel; those of queues in which an attempt waits
		lastNumber    int64                     // of the newest heartbeat
		heartbeats    []heartbeat               // those whose lives are not over, in the order of sending
		timeArgs      timeArgsCache             // of the last enter
	}
}

// New returns the lines of s. It starts nothing.
func New(s *session.Session, protocol Protocol) *Registry {
	registry := &Registry{session: s, protocol: protocol, phase: rand.N(dispatch.PollInterval), drift: rand.Float64() / 100}
	registry.ctx, registry.cancel = errs.WithCancel(context.Background(), errs.ErrClosed)
	registry.polls = timers.NewCollector(s.Timers, registry.pollAll)
	registry.mu.queues = make(map[string]*Queue)
	registry.mu.attempts = make(map[string]*Attempt)
	registry.mu.listeners = make(map[string]*grantListener)
	return registry
}

// maxSpare is how many unused queues are kept, so that a lock that is acquired again finds its queue.
const maxSpare = 256

// Use returns the queue with these keys, which must not change, and counts the caller as its user.
func (r *Registry) Use(keys *LockKeys) *Queue {
	r.mu.Lock()
	defer r.mu.Unlock()
	q := r.mu.queues[keys.Holder]
	if q == nil {
		q = &Queue{registry: r, keys: keys}
		r.mu.queues[keys.Holder] = q
	}
	if q.spare {
		q.spare = false
		r.mu.spare--
	}
	q.users++
	return q
}

// Done counts a user out. A queue that was waited in is remembered for a while: the server knows that the
// session lives.
func (r *Registry) Done(q *Queue) {
	r.mu.Lock()
	defer r.mu.Unlock()
	q.users--
	switch {
	case q.users > 0:
	case q.waitState != nil:
		r.session.Timers.Schedule(&q.timer, dispatch.Linger)
	case q.attempts == 0 && r.mu.spare < maxSpare: // a newcomer is not behind attempts that are being undone
		q.spare = true
		r.mu.spare++
	default:
		r.dropLocked(q)
	}
}

// dropLocked forgets a queue that has no user.
func (r *Registry) dropLocked(q *Queue) {
	if q.users == 0 && !q.spare && r.mu.queues[q.keys.Holder] == q {
		delete(r.mu.queues, q.keys.Holder)
	}
}

// Len returns how many lines are in use or remembered, how many attempts may have something on the server, and on how
// many channels grants are heard.
func (r *Registry) Len() (queues, attempts, listeners int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.mu.queues) - r.mu.spare, len(r.mu.attempts), len(r.mu.listeners)
}

// ShareKeyOf returns the request of a ticket of this session: zero if it is not known, or belongs to one goroutine.
func (r *Registry) ShareKeyOf(ticket string) local.ShareKey {
	attempt, isOurs := strings.CutPrefix(ticket, r.session.ID())
	if !isOurs || len(attempt) < attemptSize {
		return local.ShareKey{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.mu.attempts[attempt[:attemptSize]]; a != nil {
		return a.request.ShareKey
	}
	return local.ShareKey{}
}

// Refuse implements session.Part. It withdraws the tickets of the session in one batch, so that those of Close's holds that
// are released after it are granted to other sessions. A waiter finds its attempt over, or the session not ready.
func (r *Registry) Refuse(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.mu.attempts {
		if a.state == queued {
			a.state, a.refusal, a.withdrawn = over, err, true
			a.repeatLeave()
		}
		a.wake()
	}
}

// Evict implements session.Part.
func (r *Registry) Evict(cause error) {
	for _, localHold := range r.localHolds("", false) {
		localHold.Evict(cause)
	}
}

// Recheck implements session.Part. An attempt that has not begun may have been granted the lock and not know it: it asks the
// server when it begins.
func (r *Registry) Recheck(key string) {
	for _, localHold := range r.localHolds(key, true) {
		localHold.Recheck()
	}
}

// RecheckAll implements session.Part.
func (r *Registry) RecheckAll() { r.Recheck("") }

// localHolds returns the tenants of key, or all tenants if key is "". With doubts, an attempt that may have been granted the lock
// meanwhile asks the server when it begins. One that is queued was not granted it before the session began to listen, since
// the message of the grant would have come first. But the message that its lock was forced may overtake that of the grant:
// they can come from two nodes.
func (r *Registry) localHolds(key string, mayNeedRecheck bool) []LocalHold {
	r.mu.Lock()
	defer r.mu.Unlock()
	var holds []LocalHold
	for _, a := range r.mu.attempts {
		switch {
		case key != "" && a.q.keys.Holder != key:
		case a.localHold != nil:
			holds = append(holds, a.localHold)
		case key != "" || a.state != queued:
			a.needsRecheck = a.needsRecheck || mayNeedRecheck
		}
	}
	return holds
}

// Close implements session.Part.
func (r *Registry) Close() {
	r.cancel()
	r.polls.Close()
}
