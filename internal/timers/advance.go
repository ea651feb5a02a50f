// SPDX-License-Identifier: Apache-2.0

package timers

import (
	"cmp"
	"slices"
)

const (
	// MaxBatch is the greatest number of entries one Advance returns. It bounds how
	// long the first entry of a batch can be kept from firing by the collection
	// of the others, and the size of the driver's buffer.
	MaxBatch = 256
	// maxVisits is the greatest number of entries that one call of Advance or Next visits. With a cache miss of
	// 100 ns for each visit that is some 100 us, the longest that a Schedule has to wait for the lock.
	maxVisits = 1024
)

// Advance appends to due the entries that are due at or before now, at most MaxBatch of them, and makes them
// not pending. There may be more: Next then returns a tick that is not after now, even when this call
// returned nothing.
//
// A call costs at most one turn over the slots, however long ago the last one was.
func (w *Wheel) Advance(now int64, due []*Timer) []*Timer {
	before := len(due)
	w.mu.Lock()
	w.setNowLocked(min(now, lastTick))
	for visits := 0; visits < maxVisits && len(due)-before < MaxBatch; visits++ {
		if w.mu.sweep == nil && !w.takeSlotLocked() {
			break
		}
		e := w.mu.sweep
		unlink(e)
		if e.tick > w.mu.now {
			w.linkLocked(e, e.tick)
			continue
		}
		w.mu.len--
		due = append(due, e)
	}
	// Under the lock, since a Schedule may change the ticks of what was collected: for at most MaxBatch entries that is some 10 us.
	slices.SortFunc(due[before:], func(a, b *Timer) int { return cmp.Compare(a.tick, b.tick) })
	w.mu.Unlock()
	return due
}

// setNowLocked moves now forward. Slots that come twice between cursor and now are visited once, the last time:
// everything in them that is due by now is collected then.
func (w *Wheel) setNowLocked(now int64) {
	if now <= w.mu.now {
		return
	}
	w.mu.now = now
	// The distance is computed unsigned, since cursor begins at the least int64.
	if uint64(now)-uint64(w.mu.cursor) > uint64(w.mask) {
		w.mu.cursor = now - w.mask
	}
}

// takeSlotLocked moves the next slot that may have a due entry into sweep, which must be empty. It returns
// false if no such slot is left up to now.
//
// The cursor stays on the slot, and on now in the end: an entry scheduled for a tick already passed is linked
// under now and found by the next call.
func (w *Wheel) takeSlotLocked() bool {
	for {
		distance, ok := w.nextOccupiedLocked(w.mu.cursor)
		if !ok || distance > w.mu.now-w.mu.cursor {
			w.mu.cursor = w.mu.now
			return false
		}
		w.mu.cursor += distance
		i := w.mu.cursor & w.mask
		s := &w.mu.slots[i]
		switch {
		case s.head == nil:
			w.clearOccupiedLocked(i)
		case s.bound <= w.mu.now:
			w.clearOccupiedLocked(i)
			moveAll(&w.mu.sweep, &s.head)
			return true
		case w.mu.cursor == w.mu.now:
			return false
		default:
			w.mu.cursor++
		}
	}
}
