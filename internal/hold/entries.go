// SPDX-License-Identifier: Apache-2.0

package hold

// The entries of a hold are numbers that are never used twice. The few that are live stand in
// the hold itself, zero being an empty place; the rest, if ever, in a slice.

func (h *Hold) addLocked() uint64 {
	h.mu.serial++
	h.mu.count++
	for i, entry := range h.mu.entries {
		if entry == 0 {
			h.mu.entries[i] = h.mu.serial
			return h.mu.serial
		}
	}
	if h.mu.more == nil {
		h.mu.more = new([]uint64) // a pointer: of the holds that there are few need it
	}
	for i, entry := range *h.mu.more {
		if entry == 0 {
			(*h.mu.more)[i] = h.mu.serial
			return h.mu.serial
		}
	}
	*h.mu.more = append(*h.mu.more, h.mu.serial)
	return h.mu.serial
}

func (h *Hold) placeLocked(entry uint64) *uint64 {
	for i := range h.mu.entries {
		if h.mu.entries[i] == entry {
			return &h.mu.entries[i]
		}
	}
	if h.mu.more == nil {
		return nil
	}
	for i := range *h.mu.more {
		if (*h.mu.more)[i] == entry {
			return &(*h.mu.more)[i]
		}
	}
	return nil
}

func (h *Hold) liveLocked(entry uint64) bool { return h.placeLocked(entry) != nil }

func (h *Hold) removeLocked(entry uint64) {
	*h.placeLocked(entry) = 0
	h.mu.count--
}
