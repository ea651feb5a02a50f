// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"maps"
	"slices"
	"sync"
)

// holdTable has the holds of a group, by key, for Close and ForceUnlock to find. A hold that is being released is not in it.
type holdTable struct {
	mu struct {
		sync.Mutex
		byKey    map[string]*quorumHold
		rechecks uint64 // calls of recheck and recheckAll so far
	}
}

// recheckCount returns how often holds were rechecked so far. A ballot reads it before it asks for a hold.
func (h *holdTable) recheckCount() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mu.rechecks
}

// add puts hold into the table. It reports whether holds were rechecked since recheckCount returned since: the server may have
// granted hold before that, so hold is to be rechecked too.
func (h *holdTable) add(hold *quorumHold, since uint64) (needsRecheck bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.byKey == nil {
		h.mu.byKey = make(map[string]*quorumHold)
	}
	h.mu.byKey[hold.key()] = hold
	return h.mu.rechecks != since
}

// remove takes hold out of the table.
func (h *holdTable) remove(hold *quorumHold) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.byKey[hold.key()] == hold {
		delete(h.mu.byKey, hold.key())
	}
}

// evict ends all holds.
func (h *holdTable) evict(cause error) {
	h.mu.Lock()
	all := slices.Collect(maps.Values(h.mu.byKey))
	h.mu.Unlock()
	for _, hold := range all {
		hold.lock.base.Evict(&hold.Hold, cause) // which calls OnLost
	}
}

// recheck asks the servers whether the hold of key, if there is one, still exists. It does not wait for the
// replies.
func (h *holdTable) recheck(key string) {
	h.mu.Lock()
	h.mu.rechecks++
	hold := h.mu.byKey[key]
	h.mu.Unlock()
	if hold != nil {
		hold.Term.Recheck()
	}
}

// recheckAll is recheck for all holds.
func (h *holdTable) recheckAll() {
	h.mu.Lock()
	h.mu.rechecks++
	all := slices.Collect(maps.Values(h.mu.byKey))
	h.mu.Unlock()
	for _, hold := range all {
		hold.Term.Recheck()
	}
}
