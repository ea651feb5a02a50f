// SPDX-License-Identifier: Apache-2.0

package waitroom

import (
	"context"
	"time"

	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/timers"
)

// maxIdle is how many idle holds the rooms of a Table keep at most. They are renewed once a second.
const maxIdle = 1024

// KeptHold is an UnlockedHold that the session may keep for the next goroutine with the same key.
type KeptHold interface {
	UnlockedHold
	// MayKeep reports whether the session may keep the hold now. It is called under the lock of the Room.
	MayKeep() bool
	// Use records that a goroutine is about to use the hold after an idle time. It is called under the lock of the Room.
	Use()
	// Confirm asks the server whether it still has the hold, and reports whether it has, and no session wants the lock. Then a turn
	// begins. It is called without a lock, for a hold that NextLease refused, by the goroutine that is about to use it.
	Confirm(ctx context.Context) bool
	// End releases the hold, and waits for the reply. It is called without a lock, once, after the Room has forgotten the hold.
	End()
}

// idleHold is the hold that a Room keeps, or kept before its present use. Its fields are guarded by the lock of the Room.
//
// The goroutine that sets idle to false uses the hold, or ends it, or was called because it has ended. So exactly one does.
type idleHold struct {
	room     *Room         // assigned once
	hold     KeptHold      // nil if no hold of the session was idle, and once the hold ends
	key      ShareKey      // the key of the hold
	keepFor  time.Duration // how long the hold is idle at most
	since    time.Duration // when the hold became idle the last time, on the monotonic clock
	idle     bool          // no goroutine uses the hold
	recalled bool          // no use begins any more, since another session wants the lock
	// timer ends the hold. It is not moved by each use: when it fires, it compares since.
	timer     timers.Timer
	scheduled bool // timer is scheduled
}

// HandOverOrKeep is HandOver. If no goroutine of the session waits for the lock, or asks for it, and hold may be kept, the Room keeps
// it for at most keepFor.
func (r *Room) HandOverOrKeep(now timers.Instant, key ShareKey, from KeptHold, keepFor time.Duration) HandOverResult {
	result, cancel := r.handOverOrKeep(now, key, from, keepFor)
	if cancel != nil {
		cancel()
	}
	return result
}

func (r *Room) handOverOrKeep(
	now timers.Instant, key ShareKey, from KeptHold, keepFor time.Duration,
) (HandOverResult, context.CancelFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	result, cancel := r.handOverLocked(now, key, from)
	if result != NoWaiter || r.waitersAheadLocked(false) > 0 || !r.stripe.table.beginIdle() {
		return result, cancel
	}
	// Under the lock: a recall, Close, or the end of the hold that comes later finds the hold idle here.
	if !from.MayKeep() {
		r.stripe.table.endIdle()
		return NoWaiter, nil
	}
	r.rareLocked().idle.keepLocked(now, key, from, keepFor)
	return Kept, nil
}

func (h *idleHold) keepLocked(now timers.Instant, key ShareKey, from KeptHold, keepFor time.Duration) {
	if h.hold != from {
		h.hold, h.key, h.recalled = from, key, false
	}
	h.keepFor, h.since, h.idle = keepFor, now.Mono(), true
	if !h.scheduled {
		h.scheduled = true
		h.room.stripe.table.timers.Schedule(&h.timer, keepFor)
	}
}

// Fire implements timers.Firer: the hold may have been idle for long enough.
func (h *idleHold) Fire() {
	if ended := h.expire(); ended != nil {
		go ended.End()
	}
}

func (h *idleHold) expire() KeptHold {
	h.room.mu.Lock()
	defer h.room.mu.Unlock()
	h.scheduled = false
	if !h.idle {
		return nil
	}
	if left := h.since + h.keepFor - timers.Mono(); left > 0 {
		h.scheduled = true
		h.room.stripe.table.timers.Schedule(&h.timer, left)
		return nil
	}
	return h.takeLocked()
}

// takeLocked takes an idle hold out, for the caller to end.
func (h *idleHold) takeLocked() KeptHold {
	taken := h.hold
	h.wakeLocked()
	h.forgetLocked()
	return taken
}

// wakeLocked records that the hold is idle no more.
func (h *idleHold) wakeLocked() {
	h.idle = false
	h.room.stripe.table.endIdle()
}

// forgetLocked forgets the hold, which is not idle and ends.
func (h *idleHold) forgetLocked() {
	h.hold = nil
	if h.scheduled {
		h.scheduled = false
		h.room.stripe.table.timers.Cancel(&h.timer)
	}
}

// idleLocked returns the idle hold of r, or nil.
func (r *Room) idleLocked() *idleHold {
	if r.mu.rare == nil || !r.mu.rare.idle.idle {
		return nil
	}
	return &r.mu.rare.idle
}

// useIdleLocked returns a lease of the idle hold, if r has one with that key and it may be used without the server. Otherwise it returns
// the hold, which the caller has to end, or nil. If the key is that of the hold, the caller confirms it before: mayUse.
func (r *Room) useIdleLocked(key ShareKey) (lease hold.Lease, claimed KeptHold, mayUse bool) {
	h := r.idleLocked()
	if h == nil {
		return hold.Lease{}, nil, false
	}
	if h.key != key {
		return hold.Lease{}, h.takeLocked(), false
	}
	h.hold.Use()
	h.wakeLocked()
	if lease, ok := h.hold.NextLease(timers.Now()); ok {
		return lease, nil, false
	}
	return hold.Lease{}, h.hold, true // a recall, or a loss, finds that it is used
}

// confirm returns a lease of a hold that its caller has claimed, if the caller may use it and the server confirms it. Otherwise it
// ends the hold, so that the caller finds the lock free, and waits for that as long as ctx lasts.
func (r *Room) confirm(ctx context.Context, claimed KeptHold, mayUse bool) (hold.Lease, bool) { //nolint:revive // a fact about the hold
	if mayUse {
		if lease, ok := r.useConfirmed(claimed, claimed.Confirm(ctx)); ok {
			return lease, true
		}
	}
	awaitDetached(ctx, claimed.End)
	return hold.Lease{}, false
}

func (r *Room) useConfirmed(claimed KeptHold, isConfirmed bool) (hold.Lease, bool) { //nolint:revive // what the server said
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.keptLocked(claimed)
	if h == nil {
		return hold.Lease{}, false // it was lost meanwhile
	}
	if isConfirmed && !h.recalled {
		if lease, ok := claimed.NextLease(timers.Now()); ok {
			return lease, true
		}
	}
	h.forgetLocked()
	return hold.Lease{}, false
}

// UseOrTry is BeginTry. If the session keeps an idle hold with that key, UseOrTry returns a lease of it instead. It ends another idle
// hold first.
func (r *Room) UseOrTry(ctx context.Context, key ShareKey) (lease hold.Lease, began bool) {
	return r.useOrTry(ctx, key, key)
}

// TryJoint is BeginTry for a goroutine that acquires several locks in one call. It ends an idle hold first.
func (r *Room) TryJoint(ctx context.Context, key ShareKey) (began bool) {
	_, began = r.useOrTry(ctx, key, ShareKey{})
	return began
}

// useOrTry is UseOrTry for a goroutine that can use an idle hold with the key usable.
func (r *Room) useOrTry(ctx context.Context, key, usable ShareKey) (lease hold.Lease, began bool) {
	for {
		lease, claimed, mayUse, began := r.useOrTryOnce(key, usable)
		if claimed == nil {
			return lease, began
		}
		if lease, ok := r.confirm(ctx, claimed, mayUse); ok {
			return lease, false
		}
	}
}

func (r *Room) useOrTryOnce(key, usable ShareKey) (lease hold.Lease, claimed KeptHold, mayUse, began bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if lease, claimed, mayUse = r.useIdleLocked(usable); claimed != nil || lease != (hold.Lease{}) {
		return lease, claimed, mayUse, false
	}
	return hold.Lease{}, nil, false, r.beginTryLocked(key)
}

// Recall lets no use of a hold begin after an idle time any more, because another session wants the lock. It reports whether the hold
// is idle: then the caller ends it.
func (r *Room) Recall(recalled KeptHold) (isIdle bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.keptLocked(recalled)
	if h == nil {
		return false // a hold that was never idle keeps the turn that it has
	}
	h.recalled = true
	if isIdle = h.idle; isIdle {
		h.takeLocked()
	}
	return isIdle
}

// Forget forgets a hold that has ended, and reports whether it is or was idle.
func (r *Room) Forget(over KeptHold) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.keptLocked(over)
	if h == nil {
		return false
	}
	if h.idle {
		h.wakeLocked()
	}
	h.forgetLocked()
	return true
}

// keptLocked returns what r knows of a hold that is or was idle, or nil.
func (r *Room) keptLocked(kept KeptHold) *idleHold {
	if r.mu.rare == nil || r.mu.rare.idle.hold != kept {
		return nil
	}
	return &r.mu.rare.idle
}

// isRecalledLocked reports whether the hold with that key is handed over no more, because it was recalled after an idle time.
func (r *Room) isRecalledLocked(key ShareKey) bool {
	if r.mu.rare == nil {
		return false
	}
	h := &r.mu.rare.idle
	return h.hold != nil && h.recalled && h.key == key
}

// beginIdle counts an idle hold, unless there are as many as may be.
func (t *Table) beginIdle() bool {
	if t.idle.Add(1) <= maxIdle {
		return true
	}
	t.endIdle()
	return false
}

// endIdle counts an idle hold out.
func (t *Table) endIdle() { t.idle.Add(-1) }

// Idle returns how many holds are idle.
func (t *Table) Idle() int { return int(t.idle.Load()) }

// TakeIdle takes all idle holds out. The caller ends them.
func (t *Table) TakeIdle() (taken []KeptHold) {
	if t.Idle() == 0 {
		return nil
	}
	for r := range t.each() {
		r.mu.Lock()
		if h := r.idleLocked(); h != nil {
			taken = append(taken, h.takeLocked())
		}
		r.mu.Unlock()
	}
	return taken
}
