// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"
	"math/rand/v2"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/dispatch"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// queuedTicket is a request that waits in the queue: an attempt, which a new one follows if the ticket is lost. One
// goroutine at a time waits with it, and another one may take over.
type queuedTicket struct {
	q           *Queue
	request     *Request
	attempt     *Attempt
	lastReply   wire.LastReply
	waitedSince clock.Instant   // when the first Join returned without a grant
	firstCtx    wire.NoDeadline // the context of the first Join
}

// NewTicket returns a ticket for the lock with these keys, which must not change, or why the session accepts none. Nothing is
// sent before its Join.
func (r *Registry) NewTicket(keys *LockKeys, request *Request) (Ticket, error) {
	q, err := r.Begin(keys)
	if err != nil {
		return nil, err
	}
	return q.newTicket(request), nil
}

// newTicket returns a ticket for a caller that is counted as a user of q.
func (q *Queue) newTicket(request *Request) *queuedTicket {
	t := &queuedTicket{q: q, request: request, attempt: q.newWaitingAttempt(request)}
	t.lastReply.SetPoller(q)
	return t
}

// Join implements local.Ticket. It sends enters until the attempt is no longer entering, and pauses after an enter without a
// result.
func (t *queuedTicket) Join(ctx context.Context) (isGranted bool, err error) {
	s, key := t.q.registry.session, t.q.keys.Holder
	if t.firstCtx.Context == nil {
		ctx = t.firstCtx.Of(ctx)
	}
	t.q.listenIfSubscribed()
	for {
		// Close sets closing and then wakes all waiters. Either it finds the attempt, which is registered, or this finds closing.
		if err = s.Ready(); err != nil {
			return false, err
		}
		if ctx.Err() != nil {
			return false, t.lastReply.Ended(ctx)
		}
		if isGranted, isEntering := t.recordState(); !isEntering {
			return isGranted, nil
		}
		if err = s.Handshake(ctx, key); err == nil {
			err = t.attempt.sendEnter(ctx)
		}
		switch {
		case err == nil:
			s.Outages.InTime(key)
			t.lastReply.Failures = 0
			t.recordState() // here, because ctx may have ended meanwhile, and this is the last reply all the same
			continue
		case errors.Is(err, errLate):
			s.Outages.Late(key, errLate)
			err = nil
		default:
			err = t.lastReply.Record(ctx, err)
		}
		if err == nil {
			err = t.attempt.pause(ctx, &t.lastReply)
		}
		if err != nil {
			return false, err
		}
	}
}

// recordState records what the state of the attempt says of the lock. It reports whether the attempt has the lock, and whether
// it is still entering.
func (t *queuedTicket) recordState() (isGranted, isEntering bool) {
	state := t.attempt.currentState()
	if state == queued {
		t.lastReply.RecordHeld()
	}
	isGranted, isEntering = state == granted && !t.attempt.pollIfExpired(), state == entering
	if !isGranted && !isEntering && t.waitedSince.IsZero() {
		t.waitedSince = clock.Now()
	}
	return isGranted, isEntering
}

// Wait implements local.Ticket.
func (t *queuedTicket) Wait(ctx context.Context) error {
	for {
		isGranted, err := t.Join(ctx)
		if isGranted || err != nil {
			return err
		}
		woken, state, refusal := t.attempt.wakeChannel()
		switch {
		case state == ticketLost:
			t.replaceAttempt(ctx, refusal)
		case state.isEnded():
			return refusal
		case state == queued && t.q.registry.session.Ready() == nil: // Close may have come before the channel
			select {
			case <-woken:
			case <-ctx.Done():
			}
		}
	}
}

// replaceAttempt lets a new attempt follow the present one, which lost its ticket as refusal says.
func (t *queuedTicket) replaceAttempt(ctx context.Context, refusal error) {
	t.attempt.endWaiting()
	t.attempt.Abandon()
	t.attempt = t.q.newWaitingAttempt(t.request)
	if errors.Is(refusal, errTicketLostWhileHeld) {
		t.attempt.sleep(ctx, rand.N(rejoinWithin))
	}
}

// rejoinWithin bounds the random pause of a session that joins the queue again because it lost its ticket while another
// session has the lock. After a failover all sessions find that out together.
const rejoinWithin = dispatch.PollInterval * 2 / 5

// Ended implements local.Ticket.
func (t *queuedTicket) Ended(ctx context.Context) error { return t.lastReply.Ended(ctx) }

// Granted implements Ticket.
func (t *queuedTicket) Granted() (h Hold, waitedSince clock.Instant) {
	if t.attempt.endWaiting() {
		return t.attempt, t.waitedSince
	}
	t.attempt.Abandon()
	t.q.Done()
	return nil, t.waitedSince
}

// Leave implements local.Ticket.
func (t *queuedTicket) Leave() {
	t.attempt.endWaiting()
	t.attempt.Abandon()
	t.q.Done()
}
