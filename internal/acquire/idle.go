// SPDX-License-Identifier: Apache-2.0

package acquire

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-go/signalbox/internal/queue"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/waitroom"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// handOver hands the hold over to the first waiter of the process, or lets the queue of the process keep it, if it may be kept.
func (h *heldLock) handOver(now timers.Instant) waitroom.HandOverResult {
	request := h.acquirer.Request
	switch {
	case h.localQueue == nil:
		return waitroom.NoWaiter
	case request.KeepFor > 0:
		return h.localQueue.HandOverOrKeep(now, request.ShareKey, h, request.KeepFor)
	}
	return h.localQueue.HandOver(now, request.ShareKey, h)
}

// MayKeep implements waitroom.KeptHold. The term rests last: that is so only of a hold that is kept.
func (h *heldLock) MayKeep() bool {
	attempt, isQueued := h.serverHold.(*queue.Attempt)
	return isQueued && h.acquirer.Base.Session.Ready() == nil && attempt.MayKeep() &&
		h.acquirer.Manager.recalls.mayKeep(h.acquirer.Names.Holder) && h.Term.Rest()
}

// Use implements waitroom.KeptHold. The turn of the hold counts from the server's last reply: an idle hold is believed for as long
// after that as any other hold is handed over.
func (h *heldLock) Use() { h.Term.Use() }

// Confirm implements waitroom.KeptHold. It is a renewal.
func (h *heldLock) Confirm(ctx context.Context) bool {
	attempt, isQueued := h.serverHold.(*queue.Attempt)
	if !isQueued || !h.HasTokens() {
		return false // the caller asks for a new hold
	}
	a, sent, life := h.acquirer, timers.Now(), h.Term.Given()
	reply, err := a.Base.Session.Runner.Run(ctx, wire.Call{
		Script: a.Manager.Keep, Keys: []string{a.Names.Holder}, Args: a.renewalOf(h.serverHold, life),
	})
	if err != nil {
		return false // the hold is released, and the call finds out more
	}
	code := reply.Code()
	switch code {
	case wire.NotDone:
		h.Term.Gone()
		return false
	case wire.Done, wire.Marked:
	default:
		return false
	}
	if !h.Term.Extended(life, sent) {
		return false
	}
	attempt.OnKept(sent, code == wire.Marked)
	h.turnEnds = sent.Mono() + maxTurn
	return true // a mark was a recall, which the caller finds
}

// End implements waitroom.KeptHold. The error is reported to no caller: no lease is left.
func (h *heldLock) End() { _ = h.release(timers.Now()) }

// OnRecall implements session.RecalledHold: another session wants the lock. The session counts the hold until it is released.
func (h *heldLock) OnRecall() {
	if h.localQueue != nil && h.localQueue.Recall(h) {
		go h.End()
	}
}

// OnKept implements hold.KeptOwner.
func (h *heldLock) OnKept(sent timers.Instant, isMarked bool) {
	if attempt, isQueued := h.serverHold.(*queue.Attempt); isQueued {
		attempt.OnKept(sent, isMarked)
	}
}

// IdleLocks implements session.IdleRegistry.
func (m *Manager) IdleLocks() int { return m.LocalQueues.Idle() }

// endIdle releases all idle holds, those of a batch by one script. The goroutines end with the releases: the session counts the
// holds until then.
func (m *Manager) endIdle() {
	batches := make(map[session.BatchKey][]session.ManyReleaser)
	for _, idle := range m.LocalQueues.TakeIdle() {
		h := idle.(*heldLock) //nolint:errcheck,forcetypeassert // no other hold is kept
		key := h.BatchKey()
		batches[key] = append(batches[key], h)
	}
	for _, all := range batches {
		for batch := range slices.Chunk(all, maxBatch) {
			go batch[0].ReleaseMany(timers.Now(), batch[1:])
		}
	}
}

const (
	// minAway is for how long a lock is not kept after the first recall in vain, and maxAway for how long at most.
	minAway, maxAway = time.Second, time.Hour
	// maxRecalls is of how many locks recalls are remembered; beyond that one is forgotten.
	maxRecalls = 1024
)

// recalls remembers the locks that another session wanted in vain because this one kept them. Such a lock is not kept for a while: twice
// the time since the recall before. So a session that tries in regular intervals finds the lock idle at every third try at most, and ever
// more seldom. A recall counts as the first one if the one before was more than maxAway ago.
type recalls struct {
	count atomic.Int32 // the length of byKey, to be read without the lock

	mu    sync.Mutex
	byKey map[string]recall // by the key of the holder; guarded by mu
}

// recall is the last recall in vain of one lock: when it was, and until when the lock is not kept, on the monotonic clock.
type recall struct{ at, until time.Duration }

// add records a recall for the lock of key that was in vain. A recall while the lock is not kept anyway was not in vain because of that.
func (r *recalls) add(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, away := timers.Mono(), minAway
	last, again := r.byKey[key]
	switch {
	case again && now < last.until:
		return
	case again && now-last.at <= maxAway:
		away = min(max(2*(now-last.at), minAway), maxAway)
	}
	if r.byKey == nil {
		r.byKey = make(map[string]recall)
	}
	if !again && len(r.byKey) >= maxRecalls {
		r.dropLocked(now)
	}
	r.byKey[key] = recall{now, now + away}
	r.count.Store(int32(len(r.byKey))) //nolint:gosec // at most maxRecalls
}

// dropLocked forgets the recalls that count no more, or else one.
func (r *recalls) dropLocked(now time.Duration) {
	for key, old := range r.byKey {
		if now-old.at > maxAway {
			delete(r.byKey, key)
		}
	}
	for key := range r.byKey {
		if len(r.byKey) < maxRecalls {
			return
		}
		delete(r.byKey, key)
	}
}

// mayKeep reports whether the lock of key may be kept.
func (r *recalls) mayKeep(key string) bool {
	if r.count.Load() == 0 {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	last, is := r.byKey[key]
	return !is || timers.Mono() >= last.until
}
