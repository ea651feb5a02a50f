// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"iter"
	"slices"

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
