// SPDX-License-Identifier: Apache-2.0

package contest

import (
	"slices"
	"sync"

	"github.com/signalbox-go/signalbox/internal/layout"
	"github.com/signalbox-go/signalbox/internal/line"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/tenure"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// Kind is how one kind of lock is contested.
type Kind struct {
	*layout.Contest

	Layout *layout.Layout
	// Refusal answers the error that an answer of Acquire below -2 stands for.
	Refusal func(wire.Reply) error
}

// Contests has the contests of one kind of lock in one session. It is a tenure.Source.
type Contests struct {
	session *session.Session
	kind    Kind

	mu struct {
		sync.Mutex
		queues   map[string]*queue     // by holder key; those that somebody uses
		attempts map[*attempt]struct{} // those that may have something on the server
	}
}

// New answers the contests of s. It starts nothing.
func New(s *session.Session, kind Kind) *Contests {
	c := &Contests{session: s, kind: kind}
	c.mu.queues = make(map[string]*queue)
	c.mu.attempts = make(map[*attempt]struct{})
	return c
}

// verb returns the commands with which scripts publish. They are known after the first contact with
// the server.
func (c *Contests) verb() string { return c.session.PublishIn(c.kind.Layout) }

// Use implements tenure.Source.
func (c *Contests) Use(keys line.Keys) tenure.Queue {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.mu.queues[keys.Holder]
	if q == nil {
		q = &queue{contests: c, keys: keys}
		c.mu.queues[keys.Holder] = q
	}
	q.users++
	return q
}

// Handed implements tenure.Source. Nobody is let in but by a try of its own.
func (*Contests) Handed(string, wire.Reply) {}

// Len answers how many locks are in use, and how many attempts may have something on the server.
func (c *Contests) Len() (queues, attempts int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.mu.queues), len(c.mu.attempts)
}

// Refuse implements session.Part. Who waits for its turn looks whether the session is ready, and finds that it is not;
// the dispatcher wakes the others.
func (c *Contests) Refuse(error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, q := range c.mu.queues {
		for _, l := range q.lanes {
			for _, p := range l {
				p.wake()
			}
		}
	}
}

// Evict implements session.Part.
func (c *Contests) Evict(cause error) {
	for _, tenant := range c.tenants("") {
		tenant.Evict(cause)
	}
}

// Recheck implements session.Part.
func (c *Contests) Recheck(key string) {
	for _, tenant := range c.tenants(key) {
		tenant.Recheck()
	}
}

// RecheckAll implements session.Part.
func (c *Contests) RecheckAll() { c.Recheck("") }

// Close implements session.Part. What is under way is the settler's.
func (*Contests) Close() {}

// tenants answers who has the lock of key, or any lock where that is "".
func (c *Contests) tenants(key string) []line.Tenant {
	c.mu.Lock()
	defer c.mu.Unlock()
	var tenants []line.Tenant
	for a := range c.mu.attempts {
		if a.tenant != nil && (key == "" || a.queue.keys.Holder == key) {
			tenants = append(tenants, a.tenant)
		}
	}
	return tenants
}

// queue is one lock, as one session waits for it. Its fields are guarded by the lock of its Contests.
type queue struct {
	contests *Contests
	keys     line.Keys // assigned once

	users    int
	attempts int      // those that may have something on the server
	alone    *attempt // who has the lock alone, from Leave to the beginning of the release
	lanes    [2]lane  // of those who want the lock alone, and of those who may have it beside others
}

// lane is those who wait, as they came. The first has the turn.
type lane []*place

// Done implements tenure.Queue.
func (q *queue) Done() {
	c := q.contests
	c.mu.Lock()
	defer c.mu.Unlock()
	if q.users--; q.users == 0 {
		delete(c.mu.queues, q.keys.Holder)
	}
}

// laneOf answers where those wait who have that wish.
func (q *queue) laneOf(wish line.Wish) *lane {
	if wish.Beside {
		return &q.lanes[1]
	}
	return &q.lanes[0]
}

// busy reports whether somebody of this session is before whoever comes with that wish: has, wants or gives back the
// lock; or, where several can have it at once, waits for it.
func (q *queue) busy(wish line.Wish) bool {
	q.contests.mu.Lock()
	defer q.contests.mu.Unlock()
	if wish.Beside {
		return len(*q.laneOf(wish)) > 0
	}
	return q.attempts > 0
}

// join puts a place into its lane.
func (q *queue) join(p *place) {
	q.contests.mu.Lock()
	defer q.contests.mu.Unlock()
	l := q.laneOf(p.wish)
	*l = append(*l, p)
}

// hasTurn reports whether p is to try.
func (q *queue) hasTurn(p *place) bool {
	if q.contests.kind.Each {
		return true
	}
	q.contests.mu.Lock()
	defer q.contests.mu.Unlock()
	l := *q.laneOf(p.wish)
	return len(l) > 0 && l[0] == p
}

// isOurs reports whether this session has the lock alone, and has not begun to give it back.
func (q *queue) isOurs() bool {
	q.contests.mu.Lock()
	defer q.contests.mu.Unlock()
	return q.alone != nil
}

// part takes p out of its lane, and gives the turn to the next. It reports whether p was granted the lock: then its
// attempt is begun.
func (q *queue) part(p *place) (isGranted bool) {
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
