// SPDX-License-Identifier: Apache-2.0

package retry

import (
	"sync"

	"github.com/signalbox-go/signalbox/internal/acquire/queue"
	"github.com/signalbox-go/signalbox/internal/layout"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// Kind is a kind of lock without a queue.
type Config struct {
	*layout.Retry

	Layout *layout.Layout
	// Refusal returns the error for a reply of Acquire below -2.
	Refusal func(wire.Reply) error
}

// Contests has the contests of one kind of lock in one session. It is a queue.Source.
type LockRegistry struct {
	session *session.Session
	config  Config

	mu struct {
		sync.Mutex
		locks    map[string]*retriedLock // by holder key; those in use
		attempts map[*attempt]struct{}   // those that may have something on the server
	}
}

// New returns the contests of s. It starts nothing.
func New(s *session.Session, kind Config) *LockRegistry {
	c := &LockRegistry{session: s, config: kind}
	c.mu.locks = make(map[string]*retriedLock)
	c.mu.attempts = make(map[*attempt]struct{})
	return c
}

// verb returns the commands with which scripts publish. They are known after the first contact with
// the server.
func (c *LockRegistry) verb() string { return c.session.PublishCommandsIn(c.config.Layout) }

// Use implements queue.Source.
func (c *LockRegistry) Use(keys *queue.LockKeys) queue.Requester {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.mu.locks[keys.Holder]
	if q == nil {
		q = &retriedLock{registry: c, keys: *keys}
		q.expiry.Init(q)
		c.mu.locks[keys.Holder] = q
	}
	q.users++
	c.session.Timers.Cancel(&q.expiry)
	return q
}

// Handed implements queue.Source. A session gets the lock only by a try of its own.
func (*LockRegistry) ReadGrants(string, wire.Reply) {}

// Len returns how many locks are in use, and how many attempts may have something on the server.
func (c *LockRegistry) Len() (queues, attempts int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.mu.locks), len(c.mu.attempts)
}

// Refuse implements session.Part. The dispatcher wakes all waiters, which find that the session is not ready.
func (*LockRegistry) Refuse(error) {}

// Evict implements session.Part.
func (c *LockRegistry) Evict(cause error) {
	for _, tenant := range c.localHolds("", false) {
		tenant.Evict(cause)
	}
}

// Recheck implements session.Part. An attempt that has not begun may have been granted the lock and
// not know it: it asks the server when it begins.
func (c *LockRegistry) Recheck(key string) {
	for _, tenant := range c.localHolds(key, true) {
		tenant.Recheck()
	}
}

// RecheckAll implements session.Part.
func (c *LockRegistry) RecheckAll() { c.Recheck("") }

// Close implements session.Part. What is under way is the settler's.
func (*LockRegistry) Close() {}

// tenants returns the tenants of key, or all tenants if key is "". With doubts, an attempt that may have
// been granted the lock meanwhile asks the server when it begins.
func (c *LockRegistry) localHolds(key string, doubts bool) []queue.LocalHold {
	c.mu.Lock()
	defer c.mu.Unlock()
	var tenants []queue.LocalHold
	for a := range c.mu.attempts {
		switch {
		case key != "" && a.lock.keys.Holder != key:
		case a.localHold != nil:
			tenants = append(tenants, a.localHold)
		default:
			a.needsRecheck = a.needsRecheck || doubts && a.mayHaveHold
		}
	}
	return tenants
}
