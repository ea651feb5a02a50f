// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"iter"
	"slices"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/timers"
)

// ChangeKind is what happened to a shard of a member.
type ChangeKind uint8

// The kinds of changes.
const (
	// Granted: the member owns the shard. Its work may begin.
	Granted ChangeKind = iota + 1
	// Wanted: the shard is wanted elsewhere, or the member leaves. Stop the work, then call Shard.Release. The member
	// keeps the shard until then. Shard.Err says why.
	Wanted
	// Lost: the member's lease has ended, or is about to. Stop the work at once, then call Shard.Release: the shard is
	// not taken here again before that.
	Lost
)

// String returns the name of the kind.
func (k ChangeKind) String() string {
	switch k {
	case Granted:
		return "granted"
	case Wanted:
		return "wanted"
	case Lost:
		return "lost"
	default:
		return "none"
	}
}

// Change is a change of what a member owns.
type Change struct {
	Shard Shard
	Kind  ChangeKind
}

// Changes yields the changes of what the member owns, in order, until the member has left and all its shards are
// released. A shard that the reader has not got yet, and that was asked for or lost meanwhile, is left out: it is
// released at once. For one ownership there is a Granted, and then one Wanted or Lost at most. A slow reader delays
// nothing but itself. If it reads nothing for a minute, the shards that it has not got yet are released, and the member
// takes no others for them until it has read all changes; then it takes up its share again, within some seconds. So do no
// work on the goroutine that reads. A program that calls Own alone needs no reader.
//
// One goroutine at a time may read. A second loop continues where the first one stopped.
func (m *Member) Changes() iter.Seq[Change] {
	return func(yield func(Change) bool) {
		for {
			c, changed, more := m.nextChange()
			switch {
			case c.Kind != 0:
				if !yield(c) {
					return
				}
			case !more:
				return
			default:
				<-changed
			}
		}
	}
}

// nextChange returns the next change, or a channel that is closed when there may be one. more is false if no change will come.
func (m *Member) nextChange() (c Change, changed <-chan struct{}, more bool) {
	if m == nil || m.group == nil {
		return Change{}, nil, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.reader.reads(timers.Now().Mono())
	for len(m.mu.changes) > 0 {
		g := m.mu.changes[0]
		m.mu.changes[0] = nil
		m.mu.changes = m.mu.changes[1:]
		if g.change == 0 {
			continue // it was released meanwhile
		}
		c = Change{Shard{g}, g.change}
		g.change = 0
		if g.state == pending {
			g.state = working
		}
		return c, nil, true
	}
	m.mu.reader.waits = true
	return Change{}, m.mu.changed, m.mu.cause == nil || len(m.mu.grants) > 0
}

// minCompacted is how many changes are not worth removing those of grants that are over.
const minCompacted = 64

// reportLocked queues a change for the reader of Changes. A change of the same grant that it has not got yet is replaced.
func (m *Member) reportLocked(g *grant, kind ChangeKind) {
	if g.change == 0 {
		if len(m.mu.changes) > 2*len(m.mu.grants)+minCompacted { // no goroutine reads, and most are over
			m.mu.changes = slices.DeleteFunc(m.mu.changes, func(g *grant) bool { return g.change == 0 })
		}
		m.mu.changes = append(m.mu.changes, g)
	}
	g.change = kind
	m.wakeLocked()
}

// wakeLocked wakes the goroutines that wait for a change of the member.
func (m *Member) wakeLocked() {
	close(m.mu.changed)
	m.mu.changed = make(chan struct{})
}

// A shard is taken up when Changes has yielded its Granted, or Own has returned it. Run takes each one up at once. Until then no work
// of it can have begun. The member of a program that takes up nothing releases such shards, so that another member gets them, or
// Health says that they have no owner.

// unreadFor is for how long a reader may read nothing while there is a Granted for it.
const unreadFor = time.Minute

// reader is what a Member knows of the goroutine that reads Changes. The lock of the Member guards it.
type reader struct {
	hasRead bool          // there is one, or was
	last    time.Duration // monotonic: when it wanted the next change
	waits   bool          // the reader has read all changes
	owns    bool          // the program has called Own

	// After it has released unread shards the member takes as many as it works on, and room more. A reader
	// that reads all of them at the time of a poll gets twice as much room, so that a slow one does not move many shards often.
	isLimited bool
	room      int
	unread    []string // the names of the shards that it released
}

// reads notes that the reader wants a change.
func (r *reader) reads(now time.Duration) { r.hasRead, r.waits, r.last = true, false, now }

// takesUp reports whether a shard that is granted now is taken up. A program that calls Own alone takes up what it asks for.
func (r *reader) takesUp() bool { return r.waits || r.owns && !r.hasRead }

// isStuck reports whether the member declines what is granted.
func (r *reader) isStuck() bool { return r.isLimited && r.room == 0 }

// checkReader releases the shards that were not taken up, and sets how many the member asks for. The poller calls it after each
// poll, of a group with so many shards.
func (ms *membership) checkReader(count int) {
	m, base := ms.member, &ms.member.group.base
	m.mu.Lock()
	r := &m.mu.reader
	unread, was := m.unreadLocked(timers.Now().Mono()), r.isLimited
	switch {
	case ms.state != active:
		unread = nil
	case len(unread) > 0:
		r.isLimited, r.room, r.unread = true, 0, namesOf(unread)
		for _, g := range unread {
			m.reports.Slow(g.unreadEvent())
			m.endLocked(g, release{elsewhere: declinePause, unread: true})
		}
	case r.isLimited && r.takesUp():
		r.room = 2*r.room + 1
		r.isLimited = r.room < count
	}
	is := r.isLimited
	if was || is {
		ms.limitLocked()
	}
	m.unlock()
	for _, g := range unread {
		g.cancel(errs.ErrReleased) // to which nothing is bound
	}
	switch {
	case is && !was:
		base.Session.Logs.Unread(base.Labels(), len(unread))
	case was && !is:
		base.Session.Logs.ReadAgain(base.Labels())
	}
}

// unreadLocked returns the grants that are not taken up if nothing was read for long since the first of them.
func (m *Member) unreadLocked(now time.Duration) (all []*grant) {
	r := &m.mu.reader
	if r.takesUp() || r.hasRead && now-r.last <= unreadFor {
		return nil
	}
	for _, g := range m.mu.changes {
		if g.state == pending {
			all = append(all, g)
		}
	}
	if len(all) > 0 && now-all[0].reports.granted <= unreadFor {
		return nil
	}
	return all
}

// unread returns the names of the shards that members of the session released unread, while those do not take their share again.
func (g *Group) unread() (names []string) {
	for _, m := range g.registry.list() {
		if m.group.keys[0] == g.keys[0] {
			m.mu.Lock()
			if m.mu.reader.isLimited {
				names = append(names, m.mu.reader.unread...)
			}
			m.mu.Unlock()
		}
	}
	return names
}

// limitLocked sets how many shards the member asks for.
func (ms *membership) limitLocked() {
	m := ms.member
	limit := m.group.options.Limit
	if r := &m.mu.reader; r.isLimited {
		own := r.room
		for _, g := range m.mu.grants {
			if g.membership == ms && g.state == working {
				own++
			}
		}
		limit = min(limit, own)
	}
	if limit != m.mu.desired.limit {
		m.mu.desired.limit = limit
		m.mu.desired.number++
	}
}
