// SPDX-License-Identifier: Apache-2.0

package local

import (
	"hash/maphash"
	"maps"
	"slices"
	"sync"

	"github.com/signalbox-go/signalbox/internal/timers"
)

const (
	// stripeCount keeps goroutines on different locks out of each other's way.
	stripeCount = 64
	// maxUnused is how many unused queues a stripe keeps, so that a lock that is acquired again finds its queue: 1,024 in all.
	maxUnused = 16
)

// Table has the queues of one kind of lock in one session, by key.
type Table struct {
	timers  *timers.Timers
	waiters sync.Pool // the waiters that no goroutine uses
	seed    maphash.Seed
	stripes [stripeCount]stripe
}

type stripe struct {
	sync.Mutex
	queues       map[string]*Queue
	unusedQueues int // counts the queues without a user
}

// NewTable returns an empty table.
func NewTable(ts *timers.Timers) *Table {
	t := &Table{
		timers:  ts,
		waiters: sync.Pool{New: func() any { return &waiter{events: make(chan event, 1)} }},
		seed:    maphash.MakeSeed(),
	}
	for i := range t.stripes {
		t.stripes[i].queues = make(map[string]*Queue)
	}
	return t
}

// Use returns the queue of key and counts the caller as its user.
func (t *Table) Use(key string) *Queue {
	s := t.stripe(key)
	s.Lock()
	defer s.Unlock()
	q := s.queues[key]
	if q == nil {
		q = &Queue{lockKey: key, table: t}
		q.mu.first.queue = q
		s.queues[key] = q
		s.unusedQueues++
	}
	if q.users == 0 {
		s.unusedQueues--
	}
	q.users++
	return q
}

// Done counts a user out.
func (t *Table) Done(q *Queue) {
	s := t.stripe(q.lockKey)
	s.Lock()
	defer s.Unlock()
	if q.users--; q.users > 0 {
		return
	}
	if s.unusedQueues == maxUnused {
		delete(s.queues, q.lockKey)
		return
	}
	s.unusedQueues++
}

// Refuse ends the wait of all waiters that only wait for other goroutines. A goroutine that is on its way to the server, or
// waits with a ticket, finds out by itself, as does one that comes later by TicketSource.Admit.
func (t *Table) Refuse(err error) {
	for i := range t.stripes {
		s := &t.stripes[i]
		s.Lock()
		queues := slices.Collect(maps.Values(s.queues))
		s.Unlock()
		for _, q := range queues {
			q.refuse(err)
		}
	}
}

// Len returns how many queues are in use.
func (t *Table) Len() int {
	n := 0
	for i := range t.stripes {
		s := &t.stripes[i]
		s.Lock()
		n += len(s.queues) - s.unusedQueues
		s.Unlock()
	}
	return n
}

func (t *Table) stripe(key string) *stripe {
	return &t.stripes[maphash.String(t.seed, key)%stripeCount]
}

// getWaiter returns a waiter that is in no waitlist.
func (t *Table) getWaiter() *waiter { return t.waiters.Get().(*waiter) } //nolint:errcheck // nothing else is in there

// putWaiter takes a waiter back that is in no waitlist, and has read its event.
func (t *Table) putWaiter(w *waiter) {
	w.requesting = false
	t.waiters.Put(w)
}
