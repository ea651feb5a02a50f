// SPDX-License-Identifier: Apache-2.0

package waitroom

import (
	"hash/maphash"
	"iter"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-go/signalbox/internal/timers"
)

// stripeCount keeps goroutines on different locks out of each other's way.
const stripeCount = 64

// Table has the rooms of one kind of lock in one session that are in use, by key.
type Table struct {
	timers  *timers.Timers
	waiters sync.Pool // the waiters that no goroutine uses
	seed    maphash.Seed
	idle    atomic.Int32                 // the number of idle holds
	keys    [16]atomic.Pointer[ShareKey] // the keys that were used last: see keyOf
	stripes [stripeCount]stripe
}

type stripe struct {
	sync.Mutex
	table *Table // assigned once
	rooms map[string]*Room
}

// NewTable returns an empty table.
func NewTable(ts *timers.Timers) *Table {
	t := &Table{
		timers:  ts,
		waiters: sync.Pool{New: func() any { return &waiter{events: make(chan event, 1)} }},
		seed:    maphash.MakeSeed(),
	}
	for i := range t.stripes {
		t.stripes[i].table, t.stripes[i].rooms = t, make(map[string]*Room)
	}
	return t
}

// Use returns the room of key and counts the caller as its user.
func (t *Table) Use(key string) *Room { return t.UseOrMake(key, func() *Room { return new(Room) }) }

// UseOrMake is Use with a function that returns the memory of a new room. It is called under a lock, if the key has no room.
func (t *Table) UseOrMake(key string, memory func() *Room) *Room {
	s := &t.stripes[maphash.String(t.seed, key)%stripeCount]
	s.Lock()
	defer s.Unlock()
	r := s.rooms[key]
	if r == nil {
		r = memory()
		r.stripe = s
		s.rooms[key] = r
	}
	r.users++
	return r
}

// UseAgain counts a further user of r, which has one.
func (r *Room) UseAgain() {
	r.stripe.Lock()
	defer r.stripe.Unlock()
	r.users++
}

// Done counts a user of the room of key out. The table forgets a room without users.
func (r *Room) Done(key string) {
	s := r.stripe
	s.Lock()
	defer s.Unlock()
	if r.users--; r.users == 0 {
		delete(s.rooms, key)
	}
}

// Refuse ends the wait of all waiters that only wait for other goroutines. A goroutine that is on its way to the server, or
// waits with a ticket, finds out by itself, as does one that comes later by TicketSource.Admit.
func (t *Table) Refuse(err error) {
	for r := range t.each() {
		r.refuse(err)
	}
}

// each returns the rooms in use, stripe by stripe. No lock is held while the loop handles one.
func (t *Table) each() iter.Seq[*Room] {
	return func(yield func(*Room) bool) {
		for i := range t.stripes {
			s := &t.stripes[i]
			s.Lock()
			rooms := slices.Collect(maps.Values(s.rooms))
			s.Unlock()
			for _, r := range rooms {
				if !yield(r) {
					return
				}
			}
		}
	}
}

// Len returns how many rooms are in use.
func (t *Table) Len() int {
	n := 0
	for i := range t.stripes {
		s := &t.stripes[i]
		s.Lock()
		n += len(s.rooms)
		s.Unlock()
	}
	return n
}

// keyOf returns the address of a key that is equal to key. Most locks of a session have one of a few keys, which they share. Two
// goroutines may both find none, and then use one each.
func (t *Table) keyOf(key ShareKey) *ShareKey {
	slot := &t.keys[(uint64(key.Lease)/uint64(time.Millisecond)+uint64(key.Policy)+3*uint64(uint32(key.Permits)))%uint64(len(t.keys))] //nolint:gosec // a hash
	if last := slot.Load(); last != nil && *last == key {
		return last
	}
	own := key // not key itself, which would be on the heap in each call
	slot.Store(&own)
	return &own
}

func (t *Table) getWaiter() *waiter { return t.waiters.Get().(*waiter) } //nolint:errcheck // nothing else is in there

// putWaiter takes a waiter back that is in no waitlist, and has read its event.
func (t *Table) putWaiter(w *waiter) {
	w.requesting = false
	t.waiters.Put(w)
}
