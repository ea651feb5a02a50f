// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"sync"

	"github.com/signalbox-go/signalbox/internal/session"
)

// holdTable has the holds of a group, by key, for Close and ForceUnlock to find. A hold that is being released is not in it.
type holdTable struct {
	mu struct {
		sync.Mutex
		byKey    map[string]*quorumHold
		rechecks uint64 // how often holds were rechecked so far
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

// list returns the hold of key, or all holds if key is "". With recheck, ballots learn that their holds are to be rechecked.
func (h *holdTable) list(key string, recheck bool) (holds []session.LocalHold) { //nolint:revive // see session.KindRegistry
	h.mu.Lock()
	defer h.mu.Unlock()
	if recheck {
		h.mu.rechecks++
	}
	for of, hold := range h.mu.byKey {
		if key == "" || key == of {
			holds = append(holds, hold)
		}
	}
	return holds
}
