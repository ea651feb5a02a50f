// SPDX-License-Identifier: Apache-2.0

package timers

import (
	"fmt"
	"math"
	"math/bits"
	"sync"
)

// Firer is called when a timer is due.
type Firer interface {
	// The driver of the wheel calls Fire once the entry was collected. The wheel itself never calls it.
	Fire()
}

// Timer is one thing that is timed: an entry of the wheel, due at some tick. Embed it by value in the thing that is timed; the zero value
// is ready after Init. It belongs to one wheel at a time and must not be copied while it is pending, as its
// neighbours point into it.
//
// Its size is 48 bytes. The fields that re-scheduling reads or writes come first, so that they usually share
// one cache line: with many entries the cost of an operation is the number of lines it misses.
type Timer struct {
	// prev is the pointer that points to this entry: the head of its list or the
	// next field of the entry before it. An entry can so be unlinked without
	// knowing its list, and a head costs one word. nil: not pending.
	prev **Timer
	next *Timer

	// linkTick is the tick under which the entry is linked: slot linkTick&mask. linkTick <= max(tick, Wheel.now)
	// always holds, so the wheel visits the entry no later than it is due.
	linkTick int64
	tick     int64

	firer Firer
}

// Init sets the Firer of the entry. It is called once, before first use.
func (e *Timer) Init(firer Firer) { e.firer = firer }

// Firer returns what Init was given.
func (e *Timer) Firer() Firer { return e.firer }

// Due returns the tick of the last Schedule. Only a caller may ask beside which none schedules the entry.
func (e *Timer) Due() int64 { return e.tick }

func (e *Timer) pending() bool { return e.prev != nil }

// push makes e the first of the list.
func push(head **Timer, e *Timer) {
	first := *head
	e.prev, e.next = head, first
	if first != nil {
		first.prev = &e.next
	}
	*head = e
}

// unlink removes e from its list.
func unlink(e *Timer) {
	*e.prev = e.next
	if e.next != nil {
		e.next.prev = e.prev
	}
	e.prev, e.next = nil, nil
}

// moveAll makes the list at from the list at to, which must be empty. The entries
// after the first point at each other and need no change.
func moveAll(to, from **Timer) {
	*to, *from = *from, nil
	(*to).prev = to
}

const (
	// none is a result of Next that is later than every tick.
	none = math.MaxInt64
	// lastTick is the latest tick an entry can have.
	lastTick = none - 1
)

// Wheel is a hashed timing wheel with intrusive entries: it remembers which timer is due at which tick, and nothing else. It reads no
// clock, starts no goroutine and calls no user code: [Timers] drives it on real time. Schedule, Cancel and Len may be called by any goroutine
// at any time. Advance and Next are the driver's: one goroutine at a time.
//
// A slot takes 16 bytes and one bit, an entry needs no memory outside of itself. Next and Advance visit each
// occupied slot at most once, so a wheel should have about as many slots as the usual delay has ticks, and no
// more than some thousands.
//
// # Guarantees
//
//  1. An entry is collected only by an Advance(now) with now >= tick, where tick is
//     that of its last Schedule: never early.
//  2. It is collected exactly once per scheduling that no later Schedule and no
//     Cancel replaced. Cancel returns true if and only if it prevented that.
//  3. Calling Advance(now) until Next returns a tick after now, or false, collects
//     everything due at now.
//  4. One Advance returns at most [MaxBatch] entries, in the order of their ticks,
//     and holds the lock for a bounded number of entries, however many are due.
//  5. Batches follow each other in the order of ticks too, as long as all due ticks
//     lie within one turn and no entry was scheduled for a tick already passed.
//     An entry that is scheduled during a backlog waits behind it, as long as the
//     driver's now increases, so no entry starves.
//  6. Schedule, Cancel and Len are O(1) and allocate nothing.
//
// # Not guaranteed
//
// Entries with the same tick come in no particular order. After a pause longer than one turn, only the
// entries of one batch are ordered among themselves. A collected entry is no longer pending: cancelling or
// re-scheduling it before the driver fires it does not stop that Fire.
//
// # Time
//
// Ticks are plain integers, negative ones included; the driver decides how long a tick is. A now smaller than
// an earlier one counts as the earlier one. The greatest int64 stands for "none": a tick or a now that great
// counts as one less.
//
// A slot holds all ticks with the same remainder, whatever their turn: an entry keeps its absolute tick and
// is skipped, turn by turn, until it is due.
//
// An entry that is re-scheduled for a later tick is not moved: it stays linked, and moves when the wheel next
// visits its slot. So a lock that renews its lease over and over pays one store per renewal, and the move
// once per slot reached.
//
// # Locking
//
// One mutex guards the wheel and the links and ticks of all its pending entries. It is a leaf: under it
// nothing is called and no other lock is acquired.
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
		sweep *Timer
	}
}

// slot is the list of the entries with the same remainder of linkTick.
type slot struct {
	head *Timer
	// bound is no later than the earliest linkTick in the slot; meaningless while the
	// slot is empty. Unlinking the earliest leaves it too early, see Next.
	bound int64
}

// NewWheel returns an empty wheel. It panics unless slots is a power of two.
func NewWheel(slots int) *Wheel {
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
func (w *Wheel) Schedule(e *Timer, tick int64) (earliest bool) {
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
func (w *Wheel) Cancel(e *Timer) bool {
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
func (w *Wheel) moveLocked(e *Timer, linkTick int64) {
	if e.pending() {
		unlink(e)
	} else {
		w.mu.len++
	}
	w.linkLocked(e, linkTick)
}

func (w *Wheel) linkLocked(e *Timer, linkTick int64) {
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
