// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"maps"
	"slices"
	"sync"
)

// Table has the relays of one kind of lock in one session, by key. A relay is there while anybody uses it.
type Table struct {
	waiters sync.Pool // those that nobody uses
	mu      struct {
		sync.Mutex
		relays map[string]*Relay
	}
}

// NewTable answers an empty table.
func NewTable() *Table {
	t := &Table{waiters: sync.Pool{New: func() any { return &waiter{told: make(chan turn, 1)} }}}
	t.mu.relays = make(map[string]*Relay)
	return t
}

// Use answers the relay of key and counts the caller as its user.
func (t *Table) Use(key string) *Relay {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.mu.relays[key]
	if r == nil {
		r = &Relay{table: t, key: key}
		t.mu.relays[key] = r
	}
	r.users++
	return r
}

// Done counts a user out.
func (t *Table) Done(r *Relay) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.users--; r.users == 0 {
		delete(t.mu.relays, r.key)
	}
}

// Busy reports whether anybody waits at the relay of key.
func (t *Table) Busy(key string) bool {
	t.mu.Lock()
	r := t.mu.relays[key]
	t.mu.Unlock()
	return r != nil && r.busy()
}

// Refuse sends everybody away with err who does nothing but wait for others. Who is on its way to the server, or stands
// in line, finds out by itself, as does who comes later by Line.Ready.
func (t *Table) Refuse(err error) {
	t.mu.Lock()
	relays := slices.Collect(maps.Values(t.mu.relays))
	t.mu.Unlock()
	for _, r := range relays {
		r.refuse(err)
	}
}

// Len answers how many relays there are.
func (t *Table) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.mu.relays)
}

// waiter answers one that is in no queue.
func (t *Table) waiter() *waiter { return t.waiters.Get().(*waiter) } //nolint:errcheck // nothing else is in there

// waited takes one back that is in no queue, and was told nothing that was not read.
func (t *Table) waited(w *waiter) {
	w.away = false
	t.waiters.Put(w)
}
