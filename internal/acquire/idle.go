// SPDX-License-Identifier: Apache-2.0

package acquire

import (
	"context"
	"slices"

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
