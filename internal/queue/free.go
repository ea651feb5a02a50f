// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"sync/atomic"

	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// purse says when the short release is worth a try. A try that finds a mark, or another hold, is a miss: it costs a round trip
// more, and the next waiter waits for that. A hit pays in 2. A leave pays in 1 if its reply says that the short release would have
// been a hit. A miss takes missCost, and a try needs as much. So at most one release in 16 is a miss, in whatever order they
// come, and none before the session has released missCost locks without a queue.
type purse struct{ paid atomic.Int32 }

const missCost, maxPaid = 32, 4 * 32

// allows reports whether the next release may try. Several tries at once may all be misses: the purse is below zero then, and
// that is paid in before the next try.
func (p *purse) allows() bool { return p.paid.Load() >= missCost }

// pay pays n in, or takes it if n is negative.
func (p *purse) pay(n int32) {
	if n < 0 || p.paid.Load() < maxPaid {
		p.paid.Add(n)
	}
}

// free releases the lock with the short release, which does nothing if the holder key has another hold or a mark. It reports
// whether the lock is released.
func (a leaveExchange) free(ctx context.Context, lastUsed wire.Stamp) (isFree bool, err error) {
	registry := a.q.registry
	var memory [1 + 3]string // on the stack
	call := proto.Free{Unmarked: a.text, KeepMS: a.request.FloorTTL, Used: a.usedArg(lastUsed)}
	reply, err := registry.session.Runner.Run(ctx, wire.Call{
		Script: registry.protocol.Free, Keys: append(memory[:0:1], a.q.keys.Holder), Args: call.AppendTo(memory[1:1]),
	})
	switch {
	case err != nil:
		return false, err
	case reply.Code() == wire.Done:
		registry.purse.pay(2)
		return true, nil
	}
	registry.purse.pay(-missCost)
	return false, nil
}

// beginRelease records that a is released: it is not evicted any more. It reports whether a could be released by the short
// release: it acquired the lock at once and is sure to have no ticket, the last token is known, and no attempt of this session or,
// as far as is known, of another one has marked the key.
func (a leaveExchange) beginRelease(lastUsed wire.Stamp) (mayFree bool) {
	a.q.registry.mu.Lock()
	defer a.q.registry.mu.Unlock()
	a.localHold = nil
	return a.footprint.Left == session.UnmarkedHoldLeft && a.footprint.HasNoTicket() && lastUsed != 0 && a.q.pending == 0 && !a.idle.isRecalled()
}

// endFreed ends a, of which the server has nothing any more.
func (a leaveExchange) endFreed() {
	a.q.registry.mu.Lock()
	defer a.q.registry.mu.Unlock()
	a.endLocked()
	a.forgetLocked()
}
