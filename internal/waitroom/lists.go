// SPDX-License-Identifier: Apache-2.0

package waitroom

import (
	"hash/maphash"
	"iter"
)

// fewLists is how many waitlists besides the first a Queue compares with a key, one by one. If it has more, they are in buckets: thousands
// of goroutines may ask for different numbers of permits, or for different leases.
const fewLists = 8

func (q *Room) listsLocked() iter.Seq[*waitlist] {
	return func(yield func(*waitlist) bool) {
		for list := &q.mu.first; list != nil; list = list.next {
			if !yield(list) {
				return
			}
		}
		if q.mu.rare == nil {
			return
		}
		for _, list := range q.mu.rare.buckets {
			for ; list != nil; list = list.next {
				if !yield(list) {
					return
				}
			}
		}
	}
}

// findLocked returns the waitlist of key, or nil if it is not in use.
func (q *Room) findLocked(key ShareKey) *waitlist {
	if first := &q.mu.first; first.isOf(key) {
		return first
	}
	for list := *q.bucketLocked(key); list != nil; list = list.next {
		if list.isOf(key) {
			return list
		}
	}
	return nil
}

// isOf reports whether wl is the waitlist of key, and in use.
func (wl *waitlist) isOf(key ShareKey) bool { return !wl.isUnused() && *wl.key == key }

// bucketLocked returns where the waitlist of key is, unless it is the first: the beginning of some waitlists, each of which has the next.
func (q *Room) bucketLocked(key ShareKey) **waitlist {
	if rare := q.mu.rare; rare != nil && rare.buckets != nil {
		return &rare.buckets[maphash.Comparable(q.stripe.table.seed, key)%uint64(len(rare.buckets))]
	}
	return &q.mu.first.next
}

// findOrAddLocked is findLocked for a caller that is about to use the waitlist. An unused waitlist is reused for another key of its
// bucket: a Queue has about as many waitlists as it had keys in use at one time, however many keys there are in all.
func (q *Room) findOrAddLocked(key ShareKey) *waitlist {
	if list := q.findLocked(key); list != nil {
		return list
	}
	list := &q.mu.first
	if !list.isUnused() {
		list = q.unusedLocked(key)
	}
	list.key, list.scarce, list.state = q.stripe.table.keyOf(key), false, nil
	return list
}

// unusedLocked returns an unused waitlist for key, which is not the first.
func (q *Room) unusedLocked(key ShareKey) *waitlist {
	at, seen := q.bucketLocked(key), 0
	for *at != nil {
		if (*at).isUnused() {
			return *at
		}
		at, seen = &(*at).next, seen+1
	}
	if rare := q.mu.rare; rare != nil && rare.buckets != nil {
		if rare.spread++; rare.spread > len(rare.buckets) {
			q.spreadLocked()
		}
	} else if seen >= fewLists {
		q.spreadLocked()
	}
	at = q.bucketLocked(key)
	list := &waitlist{next: *at}
	*at = list
	return list
}

// spreadLocked makes buckets for twice as many waitlists as are in use, and forgets the others. The caller adds one. So each waitlist is
// moved a few times at most, and a bucket has about one.
func (q *Room) spreadLocked() {
	var used []*waitlist
	for list := range q.listsLocked() {
		if list != &q.mu.first && !list.isUnused() {
			used = append(used, list)
		}
	}
	rare := q.rareLocked()
	q.mu.first.next, rare.buckets, rare.spread = nil, make([]*waitlist, 2*max(len(used), fewLists)), len(used)+1
	for _, list := range used {
		bucket := q.bucketLocked(*list.key)
		list.next, *bucket = *bucket, list
	}
}
