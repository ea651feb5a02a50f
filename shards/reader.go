// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/timers"
)

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
		base.LogUnread(len(unread))
	case was && !is:
		base.LogReadAgain()
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
