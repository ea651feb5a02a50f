// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"
	"math/rand/v2"

	"github.com/signalbox-go/signalbox/internal/dispatch"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// QueuedRequest is a request that waits in the queue: an attempt, which a new one follows if the ticket is lost. One
// goroutine at a time waits with it, and another one may take over.
type QueuedRequest struct {
	q         *Queue
	request   *Request
	attempt   *Attempt
	lastReply wire.LastReply
}

// Prepare implements Requester: it makes r a request that waits in q. Nothing is sent before Join.
func (q *Queue) Prepare(request *Request, r *QueuedRequest) WaitingRequest {
	q.prepare(request, r)
	return r
}

func (q *Queue) prepare(request *Request, r *QueuedRequest) {
	r.q, r.request, r.attempt = q, request, q.newWaitingAttempt(request)
	r.lastReply.SetPoller(q)
}

// Join joins the queue. It blocks until the attempt has a ticket or was granted the lock, or returns why it has neither. The
// ticket is kept until Leave.
func (r *QueuedRequest) Join(ctx context.Context) (isGranted bool, err error) {
	if err = r.attempt.join(ctx, &r.lastReply); err != nil {
		return false, err
	}
	state, _ := r.attempt.currentState()
	return state == granted && !r.attempt.pollIfExpired(), nil
}

// Wait blocks until the lock is granted, or returns why it is not. The ticket is kept until Leave.
func (r *QueuedRequest) Wait(ctx context.Context) error {
	for {
		err := r.attempt.wait(ctx, &r.lastReply)
		if !errors.Is(err, errTicketLost) {
			return err
		}
		r.attempt.endWaiting()
		r.attempt.Abandon()
		r.attempt = r.q.newWaitingAttempt(r.request)
		if errors.Is(err, errTicketLostWhileHeld) {
			r.attempt.sleep(ctx, rand.N(rejoinWithin))
		}
	}
}

// rejoinWithin bounds the random pause of a session that joins the queue again because it lost its ticket while another
// session has the lock. After a failover all sessions find that out together.
const rejoinWithin = dispatch.PollInterval * 2 / 5

// Ended returns the error for a goroutine whose ctx has ended while another one waited for both with this ticket.
func (r *QueuedRequest) Ended(ctx context.Context) error { return r.lastReply.Ended(ctx) }

// Leave ends the ticket. It returns the attempt if the lock was granted to it, even in the same instant, or nil.
func (r *QueuedRequest) Leave() ServerHold {
	if r.attempt.endWaiting() {
		return r.attempt
	}
	r.attempt.Abandon()
	return nil
}
