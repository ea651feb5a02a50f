// SPDX-License-Identifier: Apache-2.0

package hold

import "slices"

// WantedOwner is an Owner that may learn that another session waits for the lock, and calls SetWanted then.
type WantedOwner interface {
	// LearnsOfWaiters reports whether it does.
	LearnsOfWaiters() bool
}

// wantedState says whether another session waits. The lock of the hold guards the fields.
type wantedState struct {
	is         bool          // another session waits, or waited; it stays so
	channel    chan struct{} // the channel of Wanted; nil until Wanted is called
	composites []*Hold       // the composite holds that are made of this one, and that Wanted was called for
	joined     bool          // of a composite hold: its parts know it
}

func (h *Hold) wantedLocked() *wantedState {
	rare := h.rareLocked()
	if rare.wanted == nil {
		rare.wanted = new(wantedState)
	}
	return rare.wanted
}

// Wanted returns a channel that is closed when another session waits for the lock of l; nil if the hold does not learn that.
func (l Lease) Wanted() <-chan struct{} {
	if l.hold == nil || !l.hold.learnsOfWaiters() {
		return nil
	}
	return l.hold.wanted()
}

// learnsOfWaiters reports whether h, or a part of it, learns that another session waits.
func (h *Hold) learnsOfWaiters() bool {
	if parts := h.parts(); len(parts) > 0 {
		return slices.ContainsFunc(parts, func(part Lease) bool { return part.hold.learnsOfWaiters() })
	}
	owner, is := h.owner.(WantedOwner)
	return is && owner.LearnsOfWaiters()
}

// wanted returns the channel, which it makes in the first call. A composite hold lets its parts know it then: its own lock and those of
// its parts are never held together.
func (h *Hold) wanted() <-chan struct{} {
	h.mu.Lock()
	state := h.wantedLocked()
	if state.channel == nil {
		state.channel = make(chan struct{})
		if state.is {
			close(state.channel)
		}
	}
	channel, joins := state.channel, !state.joined && len(h.parts()) > 0
	state.joined = true
	h.mu.Unlock()
	if joins {
		for _, part := range h.parts() {
			if part.hold.addComposite(h) {
				h.SetWanted()
			}
		}
	}
	return channel
}

// addComposite lets h notify a composite hold that is made of it, and reports whether another session waits already. h may be held for
// long, by an outer lease: composite holds that have ended are forgotten.
func (h *Hold) addComposite(composite *Hold) (isWanted bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	state := h.wantedLocked()
	state.composites = append(slices.DeleteFunc(state.composites, func(old *Hold) bool { return old.Term.Ended() }), composite)
	return state.is
}

// SetWanted closes the channels of Wanted: another session waits. It may be called more than once.
func (h *Hold) SetWanted() {
	h.mu.Lock()
	state := h.wantedLocked()
	if state.is {
		h.mu.Unlock()
		return
	}
	state.is = true
	if state.channel != nil {
		close(state.channel)
	}
	composites := state.composites
	state.composites = nil
	h.mu.Unlock()
	for _, composite := range composites {
		composite.SetWanted()
	}
}
