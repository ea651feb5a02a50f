// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"time"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/hold"
)

// sharesFor is for how long goroutines enter a shared hold before the server is asked again.
const sharesFor = 20 * time.Millisecond

// openHold is a hold that goroutines may enter, and until when they do so without a question to the server.
type openHold struct {
	lease hold.Lease
	until clock.Instant
}

// Sharer is a Source of holds that goroutines share.
type SharedSource interface {
	TicketSource
	// Share asks the server whether goroutines may continue to enter the hold of lease.
	MayShare(ctx context.Context, lease hold.Lease) bool
}

// Share returns a lease of the hold that the session shares, if it may be entered. The server is asked if it was not for a
// while. The hold is entered before that, so it lasts while the question is under way.
func (q *Queue) JoinShared(ctx context.Context, r ShareKey, s SharedSource) (hold.Lease, bool) {
	lease, known, ok := q.entered(r)
	if known || !ok {
		return lease, ok
	}
	sent := clock.Now()
	if s.MayShare(ctx, lease) {
		q.open(r, lease, sent)
		return lease, true
	}
	q.shut(r)
	leave(ctx, lease)
	return hold.Lease{}, false
}

// leave ends an entry of a shared hold, which stays with the goroutines that are in it. If none is left the hold is released,
// and leave waits for that as long as ctx lasts. The goroutine ends with the release, for which the session's Close waits.
func leave(ctx context.Context, lease hold.Lease) {
	left := make(chan struct{})
	go func() {
		defer close(left)
		_ = lease.Unlock() // the caller has got nothing that could be lost
	}()
	select {
	case <-left:
	case <-ctx.Done():
	}
}

// enter enters the shared hold if the server was asked a moment ago. It may be opened right after that: then Share enters it.
func (q *Queue) enter(r ShareKey) (hold.Lease, bool) {
	if r.Policy != Shared {
		return hold.Lease{}, false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if c := q.findLocked(r); c != nil && c.open != nil && c.open.isFresh() {
		return c.open.lease.Join()
	}
	return hold.Lease{}, false
}

// entered enters the shared hold, and reports whether it is known that goroutines may.
func (q *Queue) entered(r ShareKey) (lease hold.Lease, known, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	c := q.findLocked(r)
	if c == nil || c.open == nil {
		return hold.Lease{}, false, false
	}
	known = c.open.isFresh()
	lease, ok = c.open.lease.Join()
	return lease, known, ok
}

// Open lets all waiters enter the hold of lease, and for a while the goroutines that come. It does nothing if holds of the
// request are not shared.
func (q *Queue) ShareHold(r ShareKey, lease hold.Lease) {
	if r.Policy == Shared {
		q.open(r, lease, clock.Now())
	}
}

// open is Open of a hold that may be entered since then.
func (q *Queue) open(r ShareKey, lease hold.Lease, since clock.Instant) {
	if call := q.opened(r, lease, since); call != nil {
		call()
	}
}

// opened returns what to call when the lock is released, or nil: at most one waiter has a ticket. A goroutine on its way to
// the server is passed over, and gets what it asks for.
func (q *Queue) opened(r ShareKey, lease hold.Lease, since clock.Instant) (call context.CancelFunc) {
	q.mu.Lock()
	defer q.mu.Unlock()
	c := q.openLocked(r)
	c.open = &openHold{lease, since.Add(sharesFor)}
	for w := c.first(nil); w != nil; w = c.first(nil) {
		beside, ok := lease.Join()
		if !ok {
			break // it is over: the goroutine that ends its asking sends a waiter
		}
		if ends := c.serve(w, news{lease: beside}); ends != nil {
			call = ends
		}
	}
	return call
}

// shut lets no goroutine enter the shared hold any more.
func (q *Queue) shut(r ShareKey) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.openLocked(r).open = nil
}

func (h *openHold) isFresh() bool { return clock.Now().Mono() < h.until.Mono() }

// ticket returns a new ticket.
func (v *visit) ticket() (Ticket, error) {
	t, err := v.source.NewTicket()
	if s, is := v.source.(SharedSource); is && err == nil && v.request.Policy == Shared {
		t = &sharing{Ticket: t, queue: v.queue, request: v.request, sharer: s}
	}
	return t, err
}

// sharing is a ticket of goroutines that share a hold. Nothing is sent for it if they may enter the hold that there is.
type sharing struct {
	Ticket

	queue   *Queue
	request ShareKey
	sharer  SharedSource
	lease   hold.Lease // of the hold that there was
	shares  bool
}

func (t *sharing) Join(ctx context.Context) (granted bool, err error) {
	if t.lease, t.shares = t.queue.JoinShared(ctx, t.request, t.sharer); t.shares {
		return true, nil
	}
	return t.Ticket.Join(ctx)
}

func (t *sharing) BeginHold(ctx context.Context, err error) (hold.Lease, error) {
	if t.shares {
		t.Ticket.Leave()
		return t.lease, nil
	}
	return t.Ticket.BeginHold(ctx, err)
}
