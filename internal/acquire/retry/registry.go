// SPDX-License-Identifier: Apache-2.0

package retry

import (
	"sync"

	"github.com/signalbox-go/signalbox/internal/layout"
	"github.com/signalbox-go/signalbox/internal/names"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// Config describes a kind of lock without a queue.
type Config struct {
	*layout.Retry

	Keys   func(n names.Set) layout.Keys
	Layout *layout.Layout
	// Refusal returns the error for a reply of Acquire below -2.
	Refusal func(wire.Reply) error
}

// LockRegistry keeps the retried locks of one kind in one session.
type LockRegistry struct {
	session *session.Session
	config  Config

	mu struct {
		sync.Mutex
		locks    map[string]*retriedLock // by holder key, the locks in use
		attempts map[*attempt]struct{}   // the attempts that may have something on the server
	}
}

// New returns the registry of s. It starts nothing.
func New(s *session.Session, kind Config) *LockRegistry {
	registry := &LockRegistry{session: s, config: kind}
	registry.mu.locks = make(map[string]*retriedLock)
	registry.mu.attempts = make(map[*attempt]struct{})
	return registry
}

// verb returns the command with which scripts publish. It is known after the handshake with the server.
func (r *LockRegistry) verb() string { return r.session.PublishCommandsIn(r.config.Layout) }

// begin returns the lock with these names, and counts the caller, or the hold that it will have, as a user of the lock and in
// the session. It returns why the session accepts no caller.
func (r *LockRegistry) begin(n *names.Set) (*retriedLock, error) {
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
func (r *LockRegistry) Len() (queues, attempts int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.mu.locks), len(r.mu.attempts)
}

// Refuse implements session.KindRegistry. The dispatcher wakes all waiters, which find that the session is not ready.
func (*LockRegistry) Refuse(error) {}

// Close implements session.KindRegistry. The undoer ends the calls that are under way.
func (*LockRegistry) Close() {}

// LocalHolds implements session.HoldRegistry.
func (r *LockRegistry) LocalHolds(key string, recheck bool) []session.LocalHold {
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
