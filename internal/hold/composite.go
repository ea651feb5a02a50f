// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"time"

	"github.com/signalbox-go/signalbox/internal/timers"
)

// forever is the life of a term that ends with others: the clocks count further, and no process runs as long.
const forever = 100 * 365 * 24 * time.Hour

// BeginComposite makes a hold that consists of others, and returns the lease of it. It is live while all of parts are, and
// until the earliest of their deadlines; its own term has no deadline and no renewals. The caller watches the
// parts and breaks the term when one ends. From here on the hold owns the leases in parts, which stay as they
// are.
func (h *Hold) BeginComposite(owner Owner, keeper *Keeper, parts []Lease, token uint64) Lease {
	h.Term.Init(h, &Config{Keeper: keeper}, forever, timers.Now())
	return h.Begin(owner, &Scope{parts: parts}, token, token)
}

// parts returns the leases that the hold is made of.
func (h *Hold) parts() []Lease {
	if scope := h.scope.Load(); scope != nil {
		return scope.parts
	}
	return nil
}

// overdue reports whether a deadline is reached, as far as that is known without a lock.
func (h *Hold) overdue(now timers.Instant) bool {
	for _, part := range h.parts() {
		if part.hold.overdue(now) {
			return true
		}
	}
	return h.Term.Overdue(now)
}

// alive compares the clock and returns nil while the hold can be trusted. It ends what it finds over. Do not
// call it under the lock of a hold.
func (h *Hold) alive(now timers.Instant) error {
	for _, part := range h.parts() {
		if !part.hold.overdue(now) {
			continue
		}
		if err := part.Err(); err != nil {
			// The callback of the part says so too, on this goroutine or on another that was first.
			h.Term.Break(err, false)
		}
	}
	return h.Term.Alive(now)
}

// left returns how long the hold can be trusted from now on.
func (h *Hold) left(now timers.Instant) time.Duration {
	left := h.Term.Deadline().Until(now)
	for _, part := range h.parts() {
		left = min(left, part.hold.left(now))
	}
	return left
}

// leaseFor returns l if it belongs to the lock (scope, key), or the part of l that does. If l has ended it returns l,
// whatever the state of the part.
func (l Lease) leaseFor(scope *Scope, key string) (Lease, bool) {
	if _, is := l.TermFor(scope, key); is {
		return l, true
	}
	if l.hold == nil {
		return Lease{}, false
	}
	for _, part := range l.hold.parts() {
		if _, is := part.TermFor(scope, key); !is {
			continue
		}
		if l.Err() != nil {
			return l, true
		}
		return part, true
	}
	return Lease{}, false
}

// OnEnd calls ended once, with the cause, when the lease ends, or at once if it has ended. It holds
// no lock. ended must return quickly: it may run on a goroutine that other leases wait for.
func (l Lease) OnEnd(ended func(cause error)) { l.hold.onEnd(l.entry, ended) }

// Leave is Unlock, but does not notify the Owner. If this was the last lease of the hold, it returns the Owner
// that the caller has to notify, and nil otherwise.
func (l Lease) Leave() (Owner, error) {
	_, last, _, err := l.hold.leave(l.entry)
	if !last {
		return nil, err
	}
	return l.hold.owner, nil
}
