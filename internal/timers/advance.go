// SPDX-License-Identifier: Apache-2.0

package timers

import (
	"cmp"
	"math/bits"
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

// maxExact is the greatest number of slots one Next makes exact. Each may cost a visit to all slots, which
// lasts some 10 us if all 4096 have entries and none in this turn: 160 us at worst, of the order of what
// maxVisits allows.
const maxExact = 16

// Next returns the earliest pending tick, and false if nothing is pending. An entry whose tick has passed
// counts as due at the last now of Advance.
//
// The result is never too late. It is exact, unless cancelled or postponed entries left so many slots with a
// bound that is too early that making them exact would hold the lock for long. Then it is the bound, at which
// the driver wakes needlessly. The Advance of that wake-up makes the slot exact, so that one bound costs one
// wake-up.
//
// The driver calls Next before each sleep: Schedule compares with its result.
func (w *Wheel) Next() (tick int64, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.len == 0 {
		w.mu.reported = none
		return 0, false
	}
	w.mu.reported = w.earliestLocked()
	return w.mu.reported, true
}

func (w *Wheel) earliestLocked() int64 {
	if w.mu.sweep != nil {
		return w.mu.now // the entries in sweep were not visited
	}
	visits := maxVisits
	s := w.earliestSlotLocked()
	for i := 0; i < maxExact && visits > 0; i++ {
		if s.bound <= w.mu.now || w.makeExactLocked(s, &visits) {
			break
		}
		s = w.earliestSlotLocked()
	}
	return s.bound
}

// earliestSlotLocked returns the slot with the earliest bound. At least one entry must be
// pending, outside of sweep.
func (w *Wheel) earliestSlotLocked() *slot {
	var best *slot
	from := w.mu.cursor & w.mask
	words := int64(len(w.mu.occupied))
	// The word of from is read twice: its upper bits first, and all of it last.
	for k := range words + 1 {
		j := (from>>6 + k) & (words - 1)
		word := w.mu.occupied[j]
		if k == 0 {
			word = word >> (from & 63) << (from & 63)
		}
		for ; word != 0; word &= word - 1 {
			i := j<<6 + int64(bits.TrailingZeros64(word))
			s := &w.mu.slots[i]
			if s.head == nil {
				w.clearOccupiedLocked(i)
				continue
			}
			if best == nil || s.bound < best.bound {
				best = s
			}
			// No linkTick is before the cursor, so those of the slots further on are
			// later than the tick this slot has in this turn.
			if best.bound <= w.mu.cursor+(i-from)&w.mask {
				return best
			}
		}
	}
	return best
}

// makeExactLocked returns true if the bound of s is the tick of an entry. If not, it moves the postponed entries
// of s to where they belong and makes the bound exact. It visits at most visits entries, and counts visits down;
// at 0 it gives up and returns false.
func (w *Wheel) makeExactLocked(s *slot, visits *int) bool {
	bound := int64(none)
	for e := s.head; e != nil; *visits-- {
		if *visits <= 0 {
			return false
		}
		next, linkTick := e.next, max(e.tick, w.mu.now)
		if linkTick == s.bound {
			return true
		}
		if linkTick != e.linkTick {
			unlink(e)
			w.linkLocked(e, linkTick)
		}
		if &w.mu.slots[linkTick&w.mask] == s {
			bound = min(bound, linkTick)
		}
		e = next
	}
	s.bound = bound
	return false
}
