// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"
	"time"

	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// Requeue releases the hold of a and queues the session again with the same request, in one call, and waits for the reply until
// ctx ends. The parameters and wasHeld are those of Release. next may be granted already; it is nil if the server made no
// ticket. After an error the release is repeated in the background, and next may have a ticket. The caller has counted one more
// in the session (Session.Begin), which is next.
func (a *Attempt) Requeue(ctx context.Context, lastUsed wire.Stamp, expiresIn time.Duration) (next Ticket, wasHeld bool, err error) {
	a.Begin(nil) // see Release
	q := a.q.registry.use(a.q.keys)
	q.listenIfSubscribed()
	t := new(QueuedTicket)
	t.first.beginWaiting(q, a.request)
	call, sent := requeueExchange{&t.first}.requeueCall(a, lastUsed)
	t.waiting().since = sent
	runner := q.registry.session.Runner
	reply, err := runner.Run(ctx, call)
	if err != nil && wire.TryAgain(err) {
		reply, err = runner.Run(ctx, q.withHolderKeyAlone(call))
	}
	a.end()
	if err != nil {
		leaveExchange{a}.handleReleaseError(err, expiresIn)
		enterExchange{&t.first}.handleEnterError(err)
		if wire.Judge(err) != wire.Unknown {
			t.Leave()
			return nil, false, err
		}
		requeueExchange{&t.first}.handleRequeueUnknown()
		return t, false, err
	}
	result := parseRequeueResult(reply)
	isQueued := requeueExchange{&t.first}.handleRequeueReply(reply, sent)
	leaveExchange{a}.finish(!result.nothingLeft)
	if !isQueued {
		t.Leave()
		return nil, result.wasHeld, nil
	}
	return t, result.wasHeld, nil
}

// requeueCall returns the call that releases old and queues a, and the time of its sending.
func (a requeueExchange) requeueCall(old *Attempt, lastUsed wire.Stamp) (call wire.Call, sent timers.Instant) {
	q, s := a.q, a.q.registry.session
	q.registry.mu.Lock()
	defer q.registry.mu.Unlock()
	sent = timers.Now()
	a.sendLocked(s.NotAfter(q.keys.Slot, sent, session.MaxPatience))
	h := q.registry.heartbeatLocked(sent)
	return wire.Call{
		Script: q.registry.protocol.Requeue,
		Keys:   q.keys.AppendKeys(nil),
		Args: []string{
			old.Name(), a.ticket(), micros(a.request.Life), a.footprint.NotAfter.Text(), micros(h.life), h.number,
			s.Settings.Label, s.PublishCommand(), q.channel(), a.request.FloorTTL, leaveExchange{old}.floorArg(lastUsed), flag(old.footprint.HasNoTicket()),
		},
	}, sent
}

// requeueResult is what the reply to a requeue says about the hold that the requeue released.
type requeueResult struct {
	wasHeld     bool // the hold had the lock
	nothingLeft bool // the server has nothing of the hold any more
}

// parseRequeueResult reads the last two elements of the reply.
func parseRequeueResult(reply wire.Reply) requeueResult {
	n := reply.Len()
	if n < 4 {
		return requeueResult{} // the call had the holder key alone, and another hold has the lock
	}
	return requeueResult{nothingLeft: reply.Int(n-2) == 1, wasHeld: reply.Int(n-1) == 1}
}

// handleRequeueReply handles the reply to a requeue. It returns false if a has no ticket.
func (a requeueExchange) handleRequeueReply(reply wire.Reply, sent timers.Instant) bool {
	registry, q, now := a.q.registry, a.q, timers.Now()
	code := reply.Code()
	switch code {
	case wire.Done:
		registry.session.Clock.Observe(q.keys.Slot, reply.Stamp(2), now)
	case wire.NotDone:
		registry.session.Clock.Observe(q.keys.Slot, reply.Stamp(3), now)
		registry.applyGrants(reply.Text(4))
	case wire.Foreign:
		return false // another kind of lock has the name: the hold is lost, and the next enter returns the error
	default:
		registry.session.Clock.Observe(q.keys.Slot, reply.Stamp(1), now)
		return false
	}
	if code == wire.NotDone {
		q.listen()
	}
	registry.mu.Lock()
	defer registry.mu.Unlock()
	if code == wire.NotDone {
		q.recordHeartbeatLocked(sent)
	}
	if errors.Is(enterExchange(a).joinedLocked(reply, sent, now), errTooSlow) {
		a.awaitPollLocked()
	}
	return true
}

// handleRequeueUnknown records that the requeue for a had no reply. A poll finds out what a has.
func (a requeueExchange) handleRequeueUnknown() {
	a.q.listen()
	a.q.registry.mu.Lock()
	defer a.q.registry.mu.Unlock()
	if a.state == entering {
		a.awaitPollLocked()
	}
}
