// SPDX-License-Identifier: Apache-2.0

package queue

import "iter"

// waitingList has the attempts of a queue that have tickets, in order of arrival. An attempt knows its slot, so that thousands of
// attempts that end at once do not search for themselves among each other. A slot whose attempt has left is empty. The empty
// slots are removed when they are more than half of all: that costs a constant for each attempt that has left.
type waitingList struct {
	slots  []*Attempt // nil in an empty slot
	empty  int        // the number of empty slots
	listed int        // the slot of the last attempt that was listed in turn
	first  []*Attempt // the attempts that the next polls list first, in order; some have left, or were listed meanwhile
}

func (l *waitingList) len() int { return len(l.slots) - l.empty }

// all yields the attempts in order of arrival.
func (l *waitingList) all() iter.Seq[*Attempt] {
	return func(yield func(*Attempt) bool) {
		for _, a := range l.slots {
			if a != nil && !yield(a) {
				return
			}
		}
	}
}

// add appends a, which is in no list.
func (l *waitingList) add(a *Attempt) {
	a.slot = uint32(len(l.slots)) //nolint:gosec // as many attempts do not fit in memory
	l.slots = append(l.slots, a)
}

// remove removes a, which is in the list.
func (l *waitingList) remove(a *Attempt) {
	l.slots[a.slot] = nil
	if l.empty++; 2*l.empty > len(l.slots) {
		l.compact()
	}
}

// compact removes the empty slots.
func (l *waitingList) compact() {
	kept, listed := 0, 0
	for i, a := range l.slots {
		if a != nil {
			l.slots[kept], a.slot = a, uint32(kept) //nolint:gosec // see add
			kept++
		}
		if i == l.listed {
			listed = max(kept-1, 0)
		}
	}
	clear(l.slots[kept:])
	l.slots, l.empty, l.listed = l.slots[:kept], 0, listed
}

// nextInTurn returns the attempt that is listed next in turn, or nil if its slot is empty. The list is not empty.
func (l *waitingList) nextInTurn() *Attempt {
	l.listed = (l.listed + 1) % len(l.slots)
	return l.slots[l.listed]
}

// addFirst lets the next polls list a, which is in the list, before others.
func (l *waitingList) addFirst(a *Attempt) {
	if a.place == listed {
		a.place = listedFirst
		l.first = append(l.first, a)
	}
}

// takeFirst returns an attempt that is listed before others, or nil without one.
func (l *waitingList) takeFirst() *Attempt {
	for len(l.first) > 0 {
		a := l.first[0]
		l.first[0], l.first = nil, l.first[1:]
		if a.place == listedFirst {
			a.place = listed
			return a
		}
	}
	l.first = nil
	return nil
}
