// SPDX-License-Identifier: Apache-2.0

package hold

import "github.com/signalbox-go/signalbox/internal/observe"

// Observe reports what came of call: l, or err. It returns both. If the call acquired l, the end of l is reported, too. call is
// nil without an observer.
func (l Lease) Observe(call *observe.Call, err error) (Lease, error) {
	switch {
	case call == nil:
	case err != nil:
		call.Refused(err)
	default:
		call.Acquired(l.token, l.source())
		l.hold.observe(l.entry, call)
	}
	return l, err
}

// Replace makes l the lease of the call that acquired old, whose hold is replaced by that of l: the end of l is reported instead.
func (l Lease) Replace(old Lease) {
	if call := old.unobserved(); call != nil {
		l.hold.observe(l.entry, call)
	}
}

// ReplaceFailed reports that the hold of l was to be replaced, and ended with err.
func (l Lease) ReplaceFailed(err error) { l.unobserved().Unlocked(err) }

// unobserved returns the call that acquired l, which reports no end of l any more; nil without an observer.
func (l Lease) unobserved() (call *observe.Call) {
	l.hold.mu.Lock()
	defer l.hold.mu.Unlock()
	if l.hold.liveLocked(l.entry) {
		d := l.hold.dependentsLocked(l.entry)
		call, d.call = d.call, nil
	}
	return call
}

// SetQueued says that the hold of l was granted after a wait at the server.
func (l Lease) SetQueued() {
	l.hold.mu.Lock()
	defer l.hold.mu.Unlock()
	l.hold.mu.queued = true
}

// source returns where l came from. The first entry of a hold is that of the server's grant; the others are handed over.
func (l Lease) source() string {
	l.hold.mu.Lock()
	defer l.hold.mu.Unlock()
	switch {
	case l.entry>>slotBits > 1:
		return observe.FromProcess
	case l.hold.mu.queued:
		return observe.FromQueue
	}
	return observe.FromServer
}

// observe reports the end of entry to the observer of call. An entry that was lost meanwhile has ended at once. No other
// goroutine can have unlocked it, since no caller has the lease yet.
func (h *Hold) observe(entry uint64, call *observe.Call) {
	h.mu.Lock()
	lost := h.mu.lost
	if lost == nil && h.liveLocked(entry) {
		h.dependentsLocked(entry).call = call
	}
	h.mu.Unlock()
	if lost != nil {
		call.Ended(lost.Cause, lost.Gone, lost.Left)
	}
}
