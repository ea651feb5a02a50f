// SPDX-License-Identifier: Apache-2.0

package acquire

import (
	"context"
	"time"

	"github.com/signalbox-go/signalbox/internal/acquire/local"
	"github.com/signalbox-go/signalbox/internal/acquire/queue"
	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// serverTicket is a ticket in the server's queue, or one of the retries of a lock without a queue. It implements
// local.Ticket. One goroutine at a time uses it; that goroutine waits, and begins the hold or leaves.
type serverTicket struct {
	acquirer      *Acquirer
	queue         queue.Requester
	request       queue.WaitingRequest
	grantedAtOnce bool                // the first reply granted the lock
	joinedAt      clock.Instant       // the time at which the wait began; zero if the lock was granted at once
	firstCtx      wire.NoDeadline     // the context of the first Join
	requestBuf    queue.QueuedRequest // the memory of request
}

// NewTicket implements local.TicketSource.
func (a *Acquirer) NewTicket() (local.Ticket, error) {
	t, err := a.newServerTicket()
	if err != nil {
		return nil, err
	}
	return t, nil
}

// newServerTicket returns a ticket, or the reason why the session accepts none.
func (a *Acquirer) newServerTicket() (*serverTicket, error) {
	if err := a.Base.Session.Begin(); err != nil {
		return nil, err
	}
	t := &serverTicket{acquirer: a, queue: a.Manager.Use(&a.Keys)}
	t.request = t.queue.Prepare(a.Request, &t.requestBuf)
	return t, nil
}

// Join implements local.Ticket.
func (t *serverTicket) Join(ctx context.Context) (granted bool, err error) {
	t.grantedAtOnce, err = t.request.Join(t.firstCtx.Of(ctx))
	if !t.grantedAtOnce && t.joinedAt.IsZero() {
		t.joinedAt = clock.Now()
	}
	return t.grantedAtOnce, err
}

// Leave implements local.Ticket.
func (t *serverTicket) Leave() {
	if sh := t.request.Leave(); sh != nil {
		sh.Abandon()
	}
	t.acquirer.leave(t.queue)
}

// Ended returns the error for a goroutine whose ctx has ended while another one waited for both.
func (t *serverTicket) Ended(ctx context.Context) error { return t.request.Ended(ctx) }

// Wait blocks until the lock is granted, or returns why it is not. Call BeginHold or Wait after it.
func (t *serverTicket) Wait(ctx context.Context) error { return t.request.Wait(ctx) }

// BeginHold leaves the queue with what was granted, even if the grant came in the instant in which waiting failed
// with err. It returns the first lease, or why it has no lease.
func (t *serverTicket) BeginHold(ctx context.Context, err error) (hold.Lease, error) {
	if sh := t.request.Leave(); sh != nil {
		var lease hold.Lease
		if lease, err = t.acquirer.beginHold(ctx, t.queue, sh, t.waited(sh)); err == nil {
			if !t.grantedAtOnce {
				lease.SetQueued()
			}
			return lease, nil
		}
	}
	t.acquirer.leave(t.queue)
	return hold.Lease{}, err
}

// waited returns how long the session waited for the grant sh.
func (t *serverTicket) waited(sh queue.ServerHold) time.Duration {
	if t.joinedAt.IsZero() {
		return 0
	}
	return sh.Grant().Read.Mono() - t.joinedAt.Mono()
}
