// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"hash/maphash"
	"iter"
)

// table finds values by a text that each of them knows. A map would keep that text beside each pointer: 43 bytes for each of 10,000
// values, in place of 13. An empty slot ends each search, so removing a value moves up those that were put behind it.
type table[T any] struct {
	key   func(*T) string
	seed  maphash.Seed
	slots []*T // a power of two, of which at most three in four are used; a value is in its home, or behind it without a gap
	len   int
}

func newTable[T any](key func(*T) string) table[T] {
	return table[T]{key: key, seed: maphash.MakeSeed(), slots: make([]*T, 8)}
}

// home returns the first slot in which a value with that key may be.
func (t *table[T]) home(key string) int { return t.wrap(int(maphash.String(t.seed, key) >> 1)) } //nolint:gosec // 63 bits

func (t *table[T]) wrap(slot int) int { return slot & (len(t.slots) - 1) }

// find returns the slot of the value with that key, or the empty one to which it belongs.
func (t *table[T]) find(key string) int {
	slot := t.home(key)
	for t.slots[slot] != nil && t.key(t.slots[slot]) != key {
		slot = t.wrap(slot + 1)
	}
	return slot
}

// get returns the value with that key, or nil.
func (t *table[T]) get(key string) *T { return t.slots[t.find(key)] }

// put adds v, which is not in the table, and whose key no other value has.
func (t *table[T]) put(v *T) {
	if t.len++; 4*t.len > 3*len(t.slots) {
		old := t.slots
		t.slots = make([]*T, 2*len(old))
		for _, moved := range old {
			if moved != nil {
				t.slots[t.find(t.key(moved))] = moved
			}
		}
	}
	t.slots[t.find(t.key(v))] = v
}

// remove removes the value with that key, if there is one.
func (t *table[T]) remove(key string) {
	empty := t.find(key)
	if t.slots[empty] == nil {
		return
	}
	t.len--
	for slot := t.wrap(empty + 1); t.slots[slot] != nil; slot = t.wrap(slot + 1) {
		// A value stays if its home is behind the empty slot.
		if v := t.slots[slot]; t.wrap(slot-t.home(t.key(v))) >= t.wrap(slot-empty) {
			t.slots[empty], empty = v, slot
		}
	}
	t.slots[empty] = nil
}

// all yields the values. The caller does not change the table meanwhile.
func (t *table[T]) all() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for _, v := range t.slots {
			if v != nil && !yield(v) {
				return
			}
		}
	}
}
