// SPDX-License-Identifier: Apache-2.0

package proto

import (
	"hash/maphash"
	"strings"
	"sync"
)

// cacheSize is how many names a Cache remembers at most. They take some 30 KB if they are short, and 500 KB if each is as long as
// a name may be.
const cacheSize = 256

// Cache remembers the keys of names that were used lately: a program that makes a lock object for each call makes the keys of a
// name once. A name has one slot, and the next name of that slot replaces it.
type Cache struct {
	seed  maphash.Seed
	slots [cacheSize]cacheSlot
}

// cacheSlot has the keys of a name that is in them as it is.
type cacheSlot struct {
	mu  sync.Mutex // guards set
	set Set
}

// NewCache returns an empty Cache.
func NewCache() *Cache { return &Cache{seed: maphash.MakeSeed()} }

// Native is the function NativeNames. The keys of a name that has to be encoded, or hashed, are made each time: the encoded name may be
// another name.
func (c *Cache) Native(in NamingOptions, name string) (Set, error) {
	if in.Hashed || strings.ContainsFunc(name, escaped) {
		return NativeNames(in, name)
	}
	slot := &c.slots[maphash.String(c.seed, name)%cacheSize]
	if set := slot.get(); set.isOf(in.Prefix, name) {
		return set, nil
	}
	set, err := NativeNames(in, name)
	if err == nil {
		slot.put(set)
	}
	return set, err
}

func (s *cacheSlot) get() Set {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.set
}

func (s *cacheSlot) put(set Set) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set = set
}

// isOf reports whether s has the keys of a name that is in them as it is.
func (s Set) isOf(prefix, name string) bool {
	rest, hasPrefix := strings.CutPrefix(s.Holder, prefix)
	return hasPrefix && len(rest) == len("{}")+len(name)+len(holderSuffix) && rest[1:1+len(name)] == name
}
