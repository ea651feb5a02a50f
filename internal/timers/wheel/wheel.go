// SPDX-License-Identifier: Apache-2.0

package wheel

import (
	"fmt"
	"math"
	"math/bits"
	"sync"
)

// Firer is called when an entry is due.
type Firer interface {
	// The driver of the wheel calls Fire once the entry was collected. The wheel itself never calls it.
	Fire()
}

// Entry is one thing that is due at some tick. Embed it by value in the thing that is timed; the zero value
// is ready after Init. It belongs to one wheel at a time and must not be copied while it is pending, as its
// neighbours point into it.
//
// Its size is 48 bytes. The fields that re-scheduling reads or writes come first, so that they usually share
// one cache line: with many entries the cost of an operation is the number of lines it misses.
type Entry struct {
	// prev is the pointer that points to this entry: the head of its list or the
	// next field of the entry before it. An entry can so be unlinked without
	// knowing its list, and a head costs one word. nil: not pending.
	prev **Entry
	next *Entry

	// linkTick is the tick under which the entry is linked: slot linkTick&mask. linkTick <= max(tick, Wheel.now)
	// always holds, so the wheel visits the entry no later than it is due.
	linkTick int64
	tick     int64

	firer Firer
}

// Init sets the Firer of the entry. It is called once, before first use.
func (e *Entry) Init(firer Firer) { e.firer = firer }

// Firer returns what Init was given.
func (e *Entry) Firer() Firer { return e.firer }

// Due returns the tick of the last Schedule. Only a caller may ask beside which none schedules the entry.
func (e *Entry) Due() int64 { return e.tick }

func (e *Entry) pending() bool { return e.prev != nil }

// push makes e the first of the list.
func push(head **Entry, e *Entry) {
	first := *head
	e.prev, e.next = head, first
	if first != nil {
		first.prev = &e.next
	}
	*head = e
}

// unlink removes e from its list.
func unlink(e *Entry) {
	*e.prev = e.next
	if e.next != nil {
		e.next.prev = e.prev
	}
	e.prev, e.next = nil, nil
}

// moveAll makes the list at from the list at to, which must be empty. The entries
// after the first point at each other and need no change.
func moveAll(to, from **Entry) {
	*to, *from = *from, nil
	(*to).prev = to
}

const (
	// none is a result of Next that is later than every tick.
	none = math.MaxInt64
	// lastTick is the latest tick an entry can have.
	lastTick = none - 1
)

// Wheel remembers which entry is due at which tick. Schedule, Cancel and Len may be called by any goroutine
// at any time. Advance and Next are the driver's: one goroutine at a time.
//
// A slot takes 16 bytes and one bit, an entry needs no memory outside of itself. Next and Advance visit each
// occupied slot at most once, so a wheel should have about as many slots as the usual delay has ticks, and no
// more than some thousands.
type Wheel struct {
	mask int64 // number of slots - 1; assigned once

	mu struct {
		sync.Mutex

		// reported is the last result of Next, or an earlier tick that Schedule has reported since; none if Next
		// found nothing.
		reported int64
		// now is the greatest now that Advance was given.
		now int64
		// len counts the pending entries.
		len int

		slots []slot
		// occupied has the bit of each slot that has entries. A set bit may be
		// stale, a clear bit is not: unlinking need not know the slot.
		occupied []uint64

		// cursor is the next tick whose slot Advance visits; never after now. An entry is in sweep, or its
		// linkTick is cursor or later.
		cursor int64
		// sweep is the slot that Advance removed to sort it into due and not yet due. It outlives a call that
		// reached its bounds.
		sweep *Entry
	}
}

// slot is the list of the entries with the same remainder of linkTick.
type slot struct {
	head *Entry
	// bound is no later than the earliest linkTick in the slot; meaningless while the
	// slot is empty. Unlinking the earliest leaves it too early, see Next.
	bound int64
}

// New returns an empty wheel. It panics unless slots is a power of two.
func New(slots int) *Wheel {
	if slots <= 0 || slots&(slots-1) != 0 {
		//nolint:forbidigo // a constant of the caller's, wrong at the first run or never
		panic(fmt.Sprintf("wheel: %d slots, want a power of two", slots))
	}
	w := &Wheel{mask: int64(slots) - 1}
	w.mu.reported = none
	w.mu.now, w.mu.cursor = math.MinInt64, math.MinInt64
	w.mu.slots = make([]slot, slots)
	w.mu.occupied = make([]uint64, (slots+63)/64)
	return w
}

// Schedule makes e due at tick, whether it was pending before or not. A tick already passed makes it due at
// the next Advance.
//
// It reports whether the driver must be notified: e is now due earlier than the last result of Next, and than
// what an earlier Schedule has reported since. A caller that gets true must make the driver call Next; a
// caller that gets false may rely on the driver's present sleep, or on the caller that got true.
func (w *Wheel) Schedule(e *Entry, tick int64) (earliest bool) {
	w.mu.Lock()
	tick = min(tick, lastTick)
	linkTick := max(tick, w.mu.now)
	e.tick = tick
	// A pending entry that is linked early enough stays there, see the package doc.
	if !e.pending() || linkTick < e.linkTick {
		w.moveLocked(e, linkTick)
	}
	if linkTick < w.mu.reported {
		w.mu.reported, earliest = linkTick, true
	}
	w.mu.Unlock()
	return earliest
}

// Cancel makes e not pending. It returns false if it was not: Advance has already
// collected it, or it was never scheduled.
func (w *Wheel) Cancel(e *Entry) bool {
	w.mu.Lock()
	pending := e.pending()
	if pending {
		unlink(e)
		w.mu.len--
	}
	w.mu.Unlock()
	return pending
}

// Len returns the number of pending entries.
func (w *Wheel) Len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.len
}

// moveLocked links e under linkTick, and unlinks it first if it is pending.
func (w *Wheel) moveLocked(e *Entry, linkTick int64) {
	if e.pending() {
		unlink(e)
	} else {
		w.mu.len++
	}
	w.linkLocked(e, linkTick)
}

func (w *Wheel) linkLocked(e *Entry, linkTick int64) {
	i := linkTick & w.mask
	s := &w.mu.slots[i]
	if s.head == nil {
		s.bound = linkTick
		w.mu.occupied[i>>6] |= 1 << (i & 63)
	} else if linkTick < s.bound {
		s.bound = linkTick
	}
	e.linkTick = linkTick
	push(&s.head, e)
}

// nextOccupiedLocked returns how many slots after that of tick the first one with
// a bit that is set is, 0 if it is that slot itself, and false if no bit is set.
func (w *Wheel) nextOccupiedLocked(tick int64) (distance int64, ok bool) {
	from := tick & w.mask
	words := int64(len(w.mu.occupied))
	word := w.mu.occupied[from>>6] >> (from & 63) << (from & 63)
	// The word of from is read twice: its upper bits first, its lower bits last.
	for k := range words + 1 {
		j := (from>>6 + k) & (words - 1)
		if k > 0 {
			word = w.mu.occupied[j]
		}
		if word != 0 {
			found := j<<6 + int64(bits.TrailingZeros64(word))
			return (found - from) & w.mask, true
		}
	}
	return 0, false
}

// clearOccupiedLocked clears the bit of slot i.
func (w *Wheel) clearOccupiedLocked(i int64) {
	w.mu.occupied[i>>6] &^= 1 << (i & 63)
}
