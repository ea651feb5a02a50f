// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"

	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// free releases the lock with the short release, which does nothing if the holder key has another hold or a mark. It reports
// whether the lock is released.
func (a *Attempt) free(ctx context.Context, lastUsed wire.Stamp) (isFree bool, err error) {
	registry := a.q.registry
	var args [3]string // on the stack
	reply, err := registry.session.Runner.Run(ctx, wire.Call{
		Script: registry.protocol.Free,
		Keys:   a.q.keys.All[:1],
		Args:   append(args[:0], a.unmarked(), a.floorArg(lastUsed), a.request.FloorTTL),
	})
	switch {
	case err != nil:
		return false, err
	case reply.Code() == wire.Done:
		registry.purse.pay(hitPay)
		return true, nil
	}
	registry.purse.pay(-missCost)
	return false, nil
}

// beginRelease records that a is released: it is not evicted any more. It reports whether a could be released by the short
// release: it acquired the lock at once and is sure to have no ticket, the last token is known, and no attempt of this session or,
// as far as is known, of another one has marked the key.
func (a *Attempt) beginRelease(lastUsed wire.Stamp) (mayFree bool) {
	a.q.registry.mu.Lock()
	defer a.q.registry.mu.Unlock()
	a.localHold = nil
	return a.footprint.Left == session.UnmarkedHoldLeft && a.footprint.HasNoTicket() && lastUsed != 0 && a.q.pending == 0 && a.idle != recalled
}

// endFreed ends a, of which the server has nothing any more.
func (a *Attempt) endFreed() {
	a.q.registry.mu.Lock()
	defer a.q.registry.mu.Unlock()
	a.endLocked()
	a.forgetLocked()
}
