// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"context"

	"github.com/signalbox-go/signalbox/internal/errs"
)

// watch is one thing that ends with an entry: the channel of Done, or a bound context.
type watch struct {
	entry  uint64
	done   chan struct{}           // of Done, else nil
	cancel context.CancelCauseFunc // of Bind, else nil
	stop   func() bool             // of Bind: forgets the wish to hear of the parent's end
	next   *watch
	prev   *watch
	stands bool // in the list of its entry; false once it was taken
}

// end ends w and those behind it, in no order. Not under a lock: contexts run the code of
// others.
func (w *watch) end(cause error) {
	for ; w != nil; w = w.next {
		if w.done != nil {
			close(w.done)
			continue
		}
		if w.stop != nil {
			w.stop()
		}
		w.cancel(cause)
	}
}

// addWatchLocked adds w to those of its entry, which is live. Each entry has a list of its own, so that the end of one
// costs the same however many share the hold.
func (h *Hold) addWatchLocked(w *watch) {
	first := &h.atLocked(w.entry & (maxPlaces - 1)).watches
	w.next, w.stands = *first, true
	if w.next != nil {
		w.next.prev = w
	}
	*first = w
}

// removeWatchLocked removes w, which stands with its entry.
func (h *Hold) removeWatchLocked(w *watch) {
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		h.atLocked(w.entry & (maxPlaces - 1)).watches = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	}
	w.next, w.prev, w.stands = nil, nil, false
}

// takeWatchesLocked takes the watches of a place before those of taken.
func (p *place) takeWatchesLocked(taken *watch) *watch {
	first, last := p.watches, p.watches
	if first == nil {
		return taken
	}
	p.watches = nil
	for w := first; w != nil; w = w.next {
		w.prev, w.stands = nil, false
		last = w
	}
	last.next = taken
	return first
}

// takeAllWatchesLocked takes every watch off the hold.
func (h *Hold) takeAllWatchesLocked() *watch {
	var taken *watch
	for i := range h.mu.places {
		taken = h.mu.places[i].takeWatchesLocked(taken)
	}
	if h.mu.more != nil {
		for i := range h.mu.more.places {
			taken = h.mu.more.places[i].takeWatchesLocked(taken)
		}
	}
	return taken
}

// done answers the channel that closes when entry ends.
func (h *Hold) done(entry uint64) <-chan struct{} {
	if h.err(entry) != nil {
		return closedChannel()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.cause != nil || !h.liveLocked(entry) {
		return closedChannel()
	}
	for w := h.atLocked(entry & (maxPlaces - 1)).watches; w != nil; w = w.next {
		if w.done != nil {
			return w.done
		}
	}
	w := &watch{entry: entry, done: make(chan struct{})}
	h.addWatchLocked(w)
	return w.done
}

// bind calls cancel when entry ends. The watch goes when the parent ends first: a lease that is
// held for days and bound for every request must not gather them.
func (h *Hold) bind(parent context.Context, cancel context.CancelCauseFunc, entry uint64) {
	if err := h.err(entry); err != nil {
		cancel(err)
		return
	}
	w := &watch{entry: entry, cancel: cancel}
	h.mu.Lock()
	cause := h.mu.cause
	if cause == nil && !h.liveLocked(entry) {
		cause = errs.ErrReleased
	}
	if cause == nil {
		h.addWatchLocked(w)
	}
	h.mu.Unlock()
	if cause != nil {
		cancel(cause)
		return
	}
	if parent.Done() == nil {
		return
	}
	// No goroutine: the context calls back when it ends, on a goroutine of its own.
	stop := context.AfterFunc(parent, func() { h.forget(w) })
	h.mu.Lock()
	taken := !w.stands // the entry, or the parent, ended in between
	if !taken {
		w.stop = stop
	}
	h.mu.Unlock()
	if taken {
		stop()
	}
}

// forget takes one watch off the hold, unless it was taken before.
func (h *Hold) forget(w *watch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w.stands {
		h.removeWatchLocked(w)
	}
}
