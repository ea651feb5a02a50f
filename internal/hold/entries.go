// SPDX-License-Identifier: Apache-2.0

package hold

// The entries of a hold are numbers that are never used twice. The lowest bits of a number name its place, so
// that no search is needed, however many share the hold. The first few places are in the hold itself, the
// others in a slice beside it.

const (
	placeBits = 24
	maxPlaces = 1 << placeBits // entries of one hold at a time
	// maxSerial is how many entries a hold has in all. A hold that is handed over a million times a second
	// reaches that in twelve days, and is released then.
	maxSerial = 1<<(64-placeBits) - 1
)

// place holds an entry, and what ends with it.
type place struct {
	entry uint64 // 0 is empty
	ends  *ends  // nil if nothing ends with it
}

// furtherPlaces are those beside the ones in the hold.
type furtherPlaces struct {
	places []place
	free   []uint64 // those that are empty, by their numbers
}

// addLocked returns a new entry, or 0 if there are too many, or were.
func (h *Hold) addLocked() uint64 {
	if h.mu.serial == maxSerial {
		return 0
	}
	place := h.freePlaceLocked()
	if place == maxPlaces {
		return 0
	}
	h.mu.serial++
	h.mu.count++
	entry := h.mu.serial<<placeBits | place
	h.atLocked(place).entry = entry
	return entry
}

// freePlaceLocked returns a place that is empty, and may be the next one behind all others.
func (h *Hold) freePlaceLocked() uint64 {
	for i := range h.mu.places {
		if h.mu.places[i].entry == 0 {
			return uint64(i)
		}
	}
	if h.mu.more == nil {
		h.mu.more = new(furtherPlaces) // a pointer: of the holds that there are few need it
	}
	more := h.mu.more
	if n := len(more.free); n > 0 {
		place := more.free[n-1]
		more.free = more.free[:n-1]
		return place
	}
	next := uint64(inlineEntries + len(more.places))
	if next < maxPlaces {
		more.places = append(more.places, place{})
	}
	return next
}

// atLocked returns a place that there is.
func (h *Hold) atLocked(place uint64) *place {
	if place < inlineEntries {
		return &h.mu.places[place]
	}
	return &h.mu.more.places[place-inlineEntries]
}

func (h *Hold) liveLocked(entry uint64) bool {
	place := entry & (maxPlaces - 1)
	if entry == 0 || place >= inlineEntries && (h.mu.more == nil || place >= uint64(inlineEntries+len(h.mu.more.places))) {
		return false
	}
	return h.atLocked(place).entry == entry
}

// removeLocked removes a live entry, and returns what must end with it.
func (h *Hold) removeLocked(entry uint64) *ends {
	place := entry & (maxPlaces - 1)
	at := h.atLocked(place)
	over := at.takeEndsLocked(nil)
	at.entry = 0
	if place >= inlineEntries {
		h.mu.more.free = append(h.mu.more.free, place)
	}
	h.mu.count--
	return over
}
