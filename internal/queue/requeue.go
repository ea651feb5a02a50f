// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"
	"time"

	"github.com/signalbox-go/signalbox/internal/proto"
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
		reply, err = runner.Run(ctx, withHolderKeyAlone(call))
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
	result := proto.ReadRequeued(&reply)
	isQueued := requeueExchange{&t.first}.handleRequeueReply(&result, sent)
	leaveExchange{a}.finish(!result.OldGone)
	if !isQueued {
		t.Leave()
		return nil, result.WasHeld, nil
	}
	return t, result.WasHeld, nil
}

// requeueCall returns the call that releases old and queues a, and the time of its sending.
func (a requeueExchange) requeueCall(old *Attempt, lastUsed wire.Stamp) (call wire.Call, sent timers.Instant) {
	q, s := a.q, a.q.registry.session
	q.registry.mu.Lock()
	defer q.registry.mu.Unlock()
	sent = timers.Now()
	a.sendLocked(s.NotAfter(q.keys.Slot, sent, session.MaxPatience))
	h := q.registry.heartbeatLocked(sent)
	requeue := proto.Requeue{
		Old: old.Name(), New: a.ticket(), LifeUS: micros(a.request.Life), NotAfter: a.footprint.NotAfter.Text(),
		HeartbeatUS: micros(h.life), Number: h.number, Label: s.Settings.Label, Verb: s.PublishCommand(), Channel: q.channel(),
		KeepMS: a.request.FloorTTL, Used: leaveExchange{old}.usedArg(lastUsed), Certain: proto.Flag(old.footprint.HasNoTicket()),
	}
	return wire.Call{Script: q.registry.protocol.Requeue, Keys: q.keys.AppendKeys(nil), Args: requeue.AppendTo(nil)}, sent
}

// handleRequeueReply handles the reply to a requeue. It returns false if a has no ticket.
func (a requeueExchange) handleRequeueReply(reply *proto.Requeued, sent timers.Instant) bool {
	registry, q, now := a.q.registry, a.q, timers.Now()
	if reply.Code == wire.Foreign {
		return false // another kind of lock has the name: the hold is lost, and the next enter returns the error
	}
	registry.session.Clock.Observe(q.keys.Slot, reply.Now, now)
	if reply.Code != wire.Done && reply.Code != wire.NotDone {
		return false
	}
	if registry.applyGrants(reply.Grants); reply.Code == wire.NotDone {
		q.listen()
	}
	registry.mu.Lock()
	defer registry.mu.Unlock()
	if reply.Code == wire.NotDone {
		q.recordHeartbeatLocked(sent)
	}
	if errors.Is(enterExchange(a).joinedLocked(reply.Entered, sent, now), errTooSlow) {
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
