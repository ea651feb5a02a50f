// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"maps"
	"slices"
	"sync"
)

// holds are the holds of a group, by key, for Close and ForceUnlock to find. A hold that is being released is not there.
type holds struct {
	mu struct {
		sync.Mutex
		tenures  map[string]*tenure
		rechecks uint64 // calls of recheck and recheckAll so far
	}
}

// asked returns how often holds were rechecked so far. A ballot notes it before it asks for a hold.
func (h *holds) asked() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mu.rechecks
}

// add puts n into the table. It reports whether holds were rechecked since asked returned since: the server may have
// granted n before that, so it is to be rechecked too.
func (h *holds) add(n *tenure, since uint64) (isDoubtful bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.tenures == nil {
		h.mu.tenures = make(map[string]*tenure)
	}
	h.mu.tenures[n.key()] = n
	return h.mu.rechecks != since
}

// remove takes n out of the table.
func (h *holds) remove(n *tenure) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.tenures[n.key()] == n {
		delete(h.mu.tenures, n.key())
	}
}

// evict ends all holds.
func (h *holds) evict(cause error) {
	h.mu.Lock()
	all := slices.Collect(maps.Values(h.mu.tenures))
	h.mu.Unlock()
	for _, n := range all {
		n.lock.base.Evict(&n.Hold, cause) // which comes back through Lost
	}
}

// recheck asks the servers whether the hold of key, if there is one, still exists. It does not wait for the
// replies.
func (h *holds) recheck(key string) {
	h.mu.Lock()
	h.mu.rechecks++
	n := h.mu.tenures[key]
	h.mu.Unlock()
	if n != nil {
		n.Term.Recheck()
	}
}

// recheckAll is recheck for all holds.
func (h *holds) recheckAll() {
	h.mu.Lock()
	h.mu.rechecks++
	all := slices.Collect(maps.Values(h.mu.tenures))
	h.mu.Unlock()
	for _, n := range all {
		n.Term.Recheck()
	}
}
