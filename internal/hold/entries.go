// SPDX-License-Identifier: Apache-2.0

package hold

// The entries of a hold are numbers that are never used twice. The lowest bits of a number are the index of its
// slot, so that no search is needed, however many share the hold. The first few slots are in the hold itself, the
// others in a slice beside it.

const (
	slotBits = 24
	maxSlots = 1 << slotBits // the greatest number of entries that a hold has at a time
	// maxSerial is how many entries a hold has in all. A hold that is handed over a million times a second
	// reaches that in twelve days, and is released then.
	maxSerial = 1<<(64-slotBits) - 1
)

// entrySlot holds an entry, and what ends with the entry.
type entrySlot struct {
	entry      uint64      // 0 if the slot is empty
	dependents *dependents // nil if nothing ends with the entry
}

// rareState is what few holds need.
type rareState struct {
	slots []entrySlot // the slots for which the hold itself has no room
	free  []uint64    // the indexes of the empty ones of these
	lost  *namedEnd   // nil while the hold is not lost
	// wanted is nil until Wanted is called, or another session waits.
	wanted *wantedState
}

func (h *Hold) rareLocked() *rareState {
	if h.mu.rare == nil {
		h.mu.rare = new(rareState)
	}
	return h.mu.rare
}

// addEntryLocked returns a new entry, or 0 if the hold has, or ever had, too many.
func (h *Hold) addEntryLocked() uint64 {
	if h.mu.serial == maxSerial {
		return 0
	}
	slot := h.freeSlotLocked()
	if slot == maxSlots {
		return 0
	}
	h.mu.serial++
	h.mu.count++
	entry := h.mu.serial<<slotBits | slot
	h.slotLocked(slot).entry = entry
	return entry
}

// freeSlotLocked returns the index of an empty slot, which may be a new one behind all others.
func (h *Hold) freeSlotLocked() uint64 {
	for i := range h.mu.slots {
		if h.mu.slots[i].entry == 0 {
			return uint64(i)
		}
	}
	rare := h.rareLocked()
	if n := len(rare.free); n > 0 {
		slot := rare.free[n-1]
		rare.free = rare.free[:n-1]
		return slot
	}
	next := uint64(inlineEntries + len(rare.slots))
	if next < maxSlots {
		rare.slots = append(rare.slots, entrySlot{})
	}
	return next
}

// slotLocked returns the slot of that index, which exists.
func (h *Hold) slotLocked(slot uint64) *entrySlot {
	if slot < inlineEntries {
		return &h.mu.slots[slot]
	}
	return &h.mu.rare.slots[slot-inlineEntries]
}

func (h *Hold) liveLocked(entry uint64) bool {
	slot := entry & (maxSlots - 1)
	if entry == 0 || slot >= inlineEntries && (h.mu.rare == nil || slot >= uint64(inlineEntries+len(h.mu.rare.slots))) {
		return false
	}
	return h.slotLocked(slot).entry == entry
}

// removeEntryLocked removes a live entry, and returns what must end with it.
func (h *Hold) removeEntryLocked(entry uint64) *dependents {
	slot := entry & (maxSlots - 1)
	at := h.slotLocked(slot)
	deps := at.takeDependentsLocked(nil)
	at.entry = 0
	if slot >= inlineEntries {
		h.mu.rare.free = append(h.mu.rare.free, slot)
	}
	h.mu.count--
	return deps
}
