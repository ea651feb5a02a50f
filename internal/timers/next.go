// SPDX-License-Identifier: Apache-2.0

package timers

import "math/bits"

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
