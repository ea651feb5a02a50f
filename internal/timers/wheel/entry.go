// SPDX-License-Identifier: Apache-2.0

package wheel

// Firer is called when an entry is due.
type Firer interface {
	// The driver of the wheel calls Fire once the entry was collected. The wheel itself never calls it.
	Fire()
}

// Entry is one thing that is due at some tick. Embed it by value in the thing that is timed; the zero value
// is ready after Init. It belongs to one wheel at a time and must not be copied while it is pending, as its
// neighbours point into it.
//
// Its size is 56 bytes. The fields that re-scheduling reads or writes come first, so that they usually share
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

	// due is written when the entry is collected and belongs to the driver, not
	// to the wheel's lock.
	due   int64
	firer Firer
}

// Init sets the Firer of the entry. It is called once, before first use.
func (e *Entry) Init(firer Firer) { e.firer = firer }

// Firer returns what Init was given.
func (e *Entry) Firer() Firer { return e.firer }

// Due returns the tick for which Advance last collected the entry. Only the driver may ask, between that
// Advance and its next one: a Schedule in the meantime does not change the result.
func (e *Entry) Due() int64 { return e.due }

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
