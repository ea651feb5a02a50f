// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"fmt"

	"github.com/signalbox-go/signalbox/internal/errs"
)

// inlineEntries is how many entries a hold has room for without a further allocation. A
// lock that is entered again at all is seldom entered more than once again.
const inlineEntries = 2

// errTooMany is the error of an entry beyond maxSlots or maxSerial.
var errTooMany = fmt.Errorf("%w: the hold was entered too often", errs.ErrHeld)

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

// entries are the live entries of a hold, with what ends with each. The lock of the hold guards them.
type entries struct {
	serial uint64 // the number of the newest entry
	count  int32  // the number of live entries
	slots  [inlineEntries]entrySlot
	more   *moreSlots // nil until the slots above do not suffice
}

// moreSlots are the slots for which the hold itself has no room.
type moreSlots struct {
	slots []entrySlot
	free  []uint64 // the indexes of the empty ones
}

// entrySlot holds an entry, and what ends with the entry.
type entrySlot struct {
	entry      uint64      // 0 if the slot is empty
	dependents *dependents // nil if nothing ends with the entry
}

// add returns a new entry, or 0 if the hold has, or ever had, too many.
func (e *entries) add() uint64 {
	if e.serial == maxSerial {
		return 0
	}
	slot := e.freeSlot()
	if slot == maxSlots {
		return 0
	}
	e.serial++
	e.count++
	entry := e.serial<<slotBits | slot
	e.slot(slot).entry = entry
	return entry
}

// freeSlot returns the index of an empty slot, which may be a new one behind all others.
func (e *entries) freeSlot() uint64 {
	for i := range e.slots {
		if e.slots[i].entry == 0 {
			return uint64(i)
		}
	}
	if e.more == nil {
		e.more = new(moreSlots)
	}
	if n := len(e.more.free); n > 0 {
		slot := e.more.free[n-1]
		e.more.free = e.more.free[:n-1]
		return slot
	}
	next := uint64(inlineEntries + len(e.more.slots))
	if next < maxSlots {
		e.more.slots = append(e.more.slots, entrySlot{})
	}
	return next
}

// slot returns the slot of that index, which exists.
func (e *entries) slot(index uint64) *entrySlot {
	if index < inlineEntries {
		return &e.slots[index]
	}
	return &e.more.slots[index-inlineEntries]
}

func (e *entries) isLive(entry uint64) bool {
	slot := entry & (maxSlots - 1)
	if entry == 0 || slot >= inlineEntries && (e.more == nil || slot >= uint64(inlineEntries+len(e.more.slots))) {
		return false
	}
	return e.slot(slot).entry == entry
}

// remove removes a live entry, and returns what must end with it.
func (e *entries) remove(entry uint64) *dependents {
	slot := entry & (maxSlots - 1)
	at := e.slot(slot)
	deps := at.takeDependents(nil)
	at.entry = 0
	if slot >= inlineEntries {
		e.more.free = append(e.more.free, slot)
	}
	e.count--
	return deps
}

// dependentsOf returns what ends with an entry that is live.
func (e *entries) dependentsOf(entry uint64) *dependents {
	at := e.slot(entry & (maxSlots - 1))
	if at.dependents == nil {
		at.dependents = new(dependents)
	}
	return at.dependents
}

// takeAllDependents removes what ends with any entry.
func (e *entries) takeAllDependents() *dependents {
	var taken *dependents
	for i := range e.slots {
		taken = e.slots[i].takeDependents(taken)
	}
	if e.more != nil {
		for i := range e.more.slots {
			taken = e.more.slots[i].takeDependents(taken)
		}
	}
	return taken
}

// takeDependents removes what ends with the entry of a slot, and puts it before taken.
func (s *entrySlot) takeDependents(taken *dependents) *dependents {
	d := s.dependents
	if d == nil {
		return taken
	}
	d.ended, d.next, s.dependents = true, taken, nil
	return d
}
