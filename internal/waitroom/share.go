// SPDX-License-Identifier: Apache-2.0

package waitroom

import (
	"context"
	"time"

	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/timers"
)

// freshFor is for how long goroutines join a shared hold before the server is asked again.
const freshFor = 20 * time.Millisecond

// sharedHold is a hold that goroutines may join. Until freshUntil they do so without asking the server.
type sharedHold struct {
	lease      hold.Lease
	freshUntil timers.Instant
}

// JoinShared returns a lease of the hold that the session shares, if it may be joined. The server is asked if it was not for a
// while. The caller joins the hold before that, so it lasts while the question is under way.
func (r *Room) JoinShared(ctx context.Context, key ShareKey, source TicketSource) (hold.Lease, bool) {
	lease, known, ok := r.joinOpen(key)
	if known || !ok {
		return lease, ok
	}
	sent := timers.Now()
	if source.MayShare(ctx, lease) {
		r.shareSince(key, lease, sent)
		return lease, true
	}
	r.stopSharing(key)
	leaveShared(ctx, lease)
	return hold.Lease{}, false
}

// leaveShared ends an entry of a shared hold, which stays with the goroutines that are in it. If none is left the hold is released,
// and leaveShared waits for that as long as ctx lasts.
func leaveShared(ctx context.Context, lease hold.Lease) {
	awaitDetached(ctx, func() { _ = lease.Unlock() }) // the caller has got nothing that could be lost
}

// awaitDetached runs a release on a goroutine of its own, for which the session's Close waits, and waits for it as long as ctx lasts.
func awaitDetached(ctx context.Context, release func()) {
	released := make(chan struct{})
	go func() {
		defer close(released)
		release()
	}()
	select {
	case <-released:
	case <-ctx.Done():
	}
}

// joinFresh joins the shared hold if the server was asked a moment ago. A hold that is shared right after that is joined by
// JoinShared.
func (r *Room) joinFresh(key ShareKey) (hold.Lease, bool) {
	if key.Policy != Shared {
		return hold.Lease{}, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if list := r.findLocked(key); list != nil {
		if shared := list.known().shared; shared.isFresh() {
			return shared.lease.Join()
		}
	}
	return hold.Lease{}, false
}

// joinOpen joins the shared hold, and reports whether it is known that goroutines may.
func (r *Room) joinOpen(key ShareKey) (lease hold.Lease, known, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.findLocked(key)
	if list == nil {
		return hold.Lease{}, false, false
	}
	shared := list.known().shared
	known = shared.isFresh()
	lease, ok = shared.lease.Join() // the zero Lease joins nothing
	return lease, known, ok
}

// ShareHold lets all waiters join the hold of lease, and for a while newcomers too. It does nothing if holds with this key are
// not shared.
func (r *Room) ShareHold(key ShareKey, lease hold.Lease) {
	if key.Policy == Shared {
		r.shareSince(key, lease, timers.Now())
	}
}

// shareSince is ShareHold for a hold that may be joined since then.
func (r *Room) shareSince(key ShareKey, lease hold.Lease, since timers.Instant) {
	if cancel := r.startSharing(key, lease, since); cancel != nil {
		cancel()
	}
}

// startSharing returns the cancel function to call when the lock is released, or nil: at most one waiter has a ticket. A goroutine on its way to
// the server is passed over, and gets what it asks for.
func (r *Room) startSharing(key ShareKey, lease hold.Lease, since timers.Instant) (cancel context.CancelFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.findOrAddLocked(key)
	list.learn(r).shared = sharedHold{lease, since.Add(freshFor)}
	for w := list.nextToServe(nil); w != nil; w = list.nextToServe(nil) {
		beside, ok := lease.Join()
		if !ok {
			break // it is over: the goroutine whose request ends sends a waiter
		}
		if ends := list.serve(w, event{lease: beside}); ends != nil {
			cancel = ends
		}
	}
	return cancel
}

// stopSharing lets no goroutine join the shared hold any more.
func (r *Room) stopSharing(key ShareKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.findOrAddLocked(key).learn(r).shared = sharedHold{}
}

// isFresh reports whether goroutines may join h without asking the server.
func (h sharedHold) isFresh() bool {
	return !h.freshUntil.IsZero() && !h.freshUntil.Reached(timers.Now())
}

// joinShared returns a lease of the hold that the session has, if holds are shared and it may be joined. Then ticket t is left,
// and nothing is sent for it.
func (a *Acquisition) joinShared(ctx context.Context, t Ticket) (hold.Lease, bool) {
	if a.Key.Policy != Shared {
		return hold.Lease{}, false
	}
	lease, joined := a.Room.JoinShared(ctx, a.Key, a.Source)
	if !joined {
		return hold.Lease{}, false
	}
	t.Leave()
	a.AtOnce = true
	a.Deliver(lease, nil) // the caller is the first: a shared hold is handed to no other one
	return lease, true
}
