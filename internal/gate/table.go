// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"hash/maphash"
	"maps"
	"slices"
	"sync"

	"github.com/signalbox-go/signalbox/internal/clock"
)

// shards keeps goroutines on different locks out of each other's way.
const shards = 64

// idleKept is how many unused gates a shard keeps, so that a lock which is taken again and
// again finds its gate where it was: 1,024 in all, some 150 KiB where ever so many were used.
const idleKept = 16

// Table has the gates of one realm by key. A gate is there while anybody uses it, as long
// after as its lock is to be left alone, and longer where there is room.
type Table struct {
	seed   maphash.Seed
	shards [shards]shard
}

type shard struct {
	sync.Mutex
	gates map[string]*Gate
	idle  int // of them
}

// place is what the table keeps in a gate; guarded by the shard's lock.
type place struct {
	key   string
	users int
}

// NewTable answers an empty table.
func NewTable() *Table {
	t := &Table{seed: maphash.MakeSeed()}
	for i := range t.shards {
		t.shards[i].gates = make(map[string]*Gate)
	}
	return t
}

// Use answers the gate of key and counts the caller as its user.
func (t *Table) Use(key string) *Gate {
	s := t.shard(key)
	s.Lock()
	defer s.Unlock()
	g := s.gates[key]
	if g == nil {
		g = &Gate{place: place{key: key}}
		s.gates[key] = g
		s.idle++
	}
	if g.users == 0 {
		s.idle--
	}
	g.users++
	return g
}

// Done counts the caller out. It reports whether the gate stays behind, unused and without
// room for it, because its lock is to be left alone for a while: then Sweep it later.
func (t *Table) Done(g *Gate, now clock.Instant) (stays bool) {
	s := t.shard(g.key)
	s.Lock()
	defer s.Unlock()
	g.users--
	if g.users > 0 {
		return false
	}
	s.idle++
	return s.idle > idleKept && !s.dropLocked(g, now)
}

// Sweep takes g out of the table if nobody uses it and nothing keeps it.
func (t *Table) Sweep(g *Gate, now clock.Instant) {
	s := t.shard(g.key)
	s.Lock()
	defer s.Unlock()
	if g.users == 0 && s.idle > idleKept && s.gates[g.key] == g {
		s.dropLocked(g, now)
	}
}

// Refuse sends everybody away who is queued at any gate.
func (t *Table) Refuse(err error) { t.each(func(g *Gate) { g.Refuse(err) }) }

// Evict ends every hold.
func (t *Table) Evict(cause error) { t.each(func(g *Gate) { g.Evict(cause) }) }

// Recheck asks whoever holds the lock of key here, if anybody does, to look whether that is so.
func (t *Table) Recheck(key string) {
	s := t.shard(key)
	s.Lock()
	g := s.gates[key]
	s.Unlock()
	if g != nil {
		g.Recheck()
	}
}

// RecheckAll is Recheck for every lock.
func (t *Table) RecheckAll() { t.each((*Gate).Recheck) }

// each calls visit for every gate, under no lock.
func (t *Table) each(visit func(*Gate)) {
	for i := range t.shards {
		s := &t.shards[i]
		s.Lock()
		gates := slices.Collect(maps.Values(s.gates))
		s.Unlock()
		for _, g := range gates {
			visit(g)
		}
	}
}

// Len answers how many gates are in use.
func (t *Table) Len() int {
	n := 0
	for i := range t.shards {
		t.shards[i].Lock()
		n += len(t.shards[i].gates) - t.shards[i].idle
		t.shards[i].Unlock()
	}
	return n
}

// dropLocked forgets an unused gate unless its lock is to be left alone. Lock order: the
// shard's before the gate's; nothing holds a gate's lock and asks for a shard's.
func (s *shard) dropLocked(g *Gate, now clock.Instant) bool {
	g.mu.Lock()
	keep := g.standBackLocked(now) > 0
	g.mu.Unlock()
	if !keep {
		delete(s.gates, g.key)
		s.idle--
	}
	return !keep
}

func (t *Table) shard(key string) *shard {
	return &t.shards[maphash.String(t.seed, key)%shards]
}
