// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/notify"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/waitroom"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// QueuedTicket is a request that waits in the queue: an attempt, which a new one follows if the ticket is lost. One
// goroutine at a time waits with it, and another one may take over. Queues.MakeTicket makes one.
type QueuedTicket struct {
	first    Attempt
	firstCtx wire.NoDeadline // the context of the first Join
}

// ticketWait is what a ticket needs only if it is not granted at once. The goroutine that waits with the ticket writes it. It is part
// of what its first attempt needs.
type ticketWait struct {
	next      *Attempt // the attempt that follows those which lost their tickets; nil while that is the first one
	lastReply wire.LastReply
	since     timers.Instant // when the first Join returned without a grant
}

func (t *QueuedTicket) attempt() *Attempt {
	if t.first.wait != nil && t.first.wait.next != nil {
		return t.first.wait.next
	}
	return &t.first
}

// waiting returns what t needs to wait.
func (t *QueuedTicket) waiting() *ticketWait {
	if t.first.wait == nil {
		t.first.q.registry.mu.Lock()
		t.first.waitLocked()
		t.first.q.registry.mu.Unlock()
	}
	wait := &t.first.wait.ticketWait
	wait.lastReply.SetPoller(t.first.q)
	return wait
}

// waitedSince returns when the first Join returned without a grant, or the zero Instant.
func (t *QueuedTicket) waitedSince() timers.Instant {
	if t.first.wait == nil {
		return timers.Instant{}
	}
	return t.first.wait.since
}

// MakeTicket makes t a ticket for the lock with these keys, which must not change, or returns why the session accepts none. If the
// session has no queue of the lock, it uses the memory of unused, if that is not nil. Nothing is sent before the Join of t.
func (r *Queues) MakeTicket(t *QueuedTicket, unused *Queue, keys *proto.Set, request *Request) error {
	if err := r.session.Begin(); err != nil {
		return err
	}
	text := r.newText(request)
	r.mu.Lock()
	defer r.mu.Unlock()
	t.first.beginWaitingLocked(r.useLocked(unused, keys), text, request)
	return nil
}

// Join implements waitroom.Ticket. It sends enters until the attempt is no longer entering, and pauses after an enter without a
// result.
func (t *QueuedTicket) Join(ctx context.Context) (isGranted bool, err error) {
	q := t.first.q
	s, key := q.registry.session, q.keys.Holder
	if t.firstCtx.Context == nil {
		ctx = t.firstCtx.Of(ctx)
	}
	if !s.Runner.IsConnected() {
		if err = t.waiting().lastReply.AwaitConnection(ctx, s.Runner); err != nil {
			return false, err
		}
	}
	q.listenIfSubscribed()
	for {
		// Close sets closing and then wakes all waiters. Either it finds the attempt, which is registered, or this finds closing.
		if err = s.Ready(); err != nil {
			return false, err
		}
		if ctx.Err() != nil {
			return false, t.Ended(ctx)
		}
		if isGranted, isEntering := t.recordState(); !isEntering {
			return isGranted, nil
		}
		if err = s.Handshake(ctx, key); err == nil {
			err = enterExchange{t.attempt()}.sendEnter(ctx)
		}
		switch {
		case err == nil:
			s.Outages.InTime(key)
			if t.first.wait != nil {
				t.first.wait.lastReply.Failures = 0
			}
			// Here, because ctx may have ended meanwhile, and this is the last reply all the same.
			if isGranted, _ := t.recordState(); isGranted {
				return true, nil
			}
			continue
		case errors.Is(err, errLate):
			s.Outages.Late(key, errLate)
			err = nil
		default:
			err = t.waiting().lastReply.Record(ctx, err)
		}
		if err == nil {
			err = t.attempt().pause(ctx, &t.waiting().lastReply)
		}
		if err != nil {
			return false, err
		}
	}
}

// recordState records what the state of the attempt says of the lock. It reports whether the attempt has the lock, and whether
// it is still entering.
func (t *QueuedTicket) recordState() (isGranted, isEntering bool) {
	state := t.attempt().currentState()
	if state == queued {
		t.waiting().lastReply.RecordHeld()
	}
	isGranted, isEntering = state == granted && !t.attempt().pollIfExpired(), state == entering
	if !isGranted && !isEntering {
		if wait := t.waiting(); wait.since.IsZero() {
			wait.since = timers.Now()
		}
	}
	return isGranted, isEntering
}

// Wait implements waitroom.Ticket.
func (t *QueuedTicket) Wait(ctx context.Context) error {
	for {
		isGranted, err := t.Join(ctx)
		if isGranted || err != nil {
			return err
		}
		woken, state, refusal := t.attempt().wakeChannel()
		switch {
		case state == ticketLost:
			t.replaceAttempt(ctx, refusal)
		case state.isEnded():
			return refusal
		case state == queued && t.attempt().q.registry.session.Ready() == nil: // Close may have come before the channel
			select {
			case <-woken:
			case <-ctx.Done():
			}
		}
	}
}

// replaceAttempt lets a new attempt follow the present one, which lost its ticket as refusal says.
func (t *QueuedTicket) replaceAttempt(ctx context.Context, refusal error) {
	lost, next := t.attempt(), new(Attempt)
	lost.endWaiting()
	lost.Abandon()
	next.beginWaiting(lost.q, lost.request)
	t.waiting().next = next
	if errors.Is(refusal, errTicketLostWhileHeld) {
		next.sleep(ctx, rand.N(rejoinWithin))
	}
}

// rejoinWithin bounds the random pause of a session that joins the queue again because it lost its ticket while another
// session has the lock. After a failover all sessions find that out together.
const rejoinWithin = notify.PollInterval * 2 / 5

// Ended implements waitroom.Ticket.
func (t *QueuedTicket) Ended(ctx context.Context) error {
	if t.first.wait == nil {
		return errs.Ended(ctx)
	}
	return t.first.wait.lastReply.Ended(ctx)
}

// Granted implements Ticket.
func (t *QueuedTicket) Granted() (h Hold, waitedSince timers.Instant) {
	a := t.attempt()
	if !a.endWaiting() {
		a.Abandon()
		a.Done()
		return nil, t.waitedSince()
	}
	t.freeContext()
	return a, t.waitedSince()
}

// freeContext forgets the context of the first request of t, which was granted, if no call uses it any more: the hold may last for
// long.
func (t *QueuedTicket) freeContext() {
	if a := t.attempt(); a.footprint.Sent == 1 && !a.footprint.Unknown {
		t.firstCtx = wire.NoDeadline{}
	}
}

// Leave implements waitroom.Ticket.
func (t *QueuedTicket) Leave() {
	a := t.attempt()
	a.endWaiting()
	a.Abandon()
	a.Done()
}

// Ticket is one request that waits: in the server's queue (this package), or by trying again (package acquire). The session
// counts it until Leave, or until the Done of its Hold.
type Ticket interface {
	waitroom.Ticket
	// Granted ends the ticket, and returns the hold that was granted to it, even in the same instant, and since when it had
	// waited for that: the zero Instant if it was granted at once. Without a hold it leaves, and returns nil.
	Granted() (h Hold, waitedSince timers.Instant)
}

// Hold is one hold id, and the server's hold with that id. The session counts it until Done.
type Hold interface {
	// Grant returns what the server gave.
	Grant() Grant
	// Name returns the name under which the server records the hold.
	Name() string
	// Register lists the hold in this process. From now on it can be evicted.
	Register(localHold session.LocalHold)
	// Extended records, before Register, that the hold was extended by a call that was sent at sent.
	Extended(life time.Duration, sent timers.Instant)
	// Release releases the lock, and waits for the reply until ctx ends. lastUsed is the stamp of the last token that was
	// used. Release returns false if the hold no longer had the lock. After an error the release is repeated in the
	// background until the hold has expired, which takes expiresIn at most, or longer if a ticket may be left.
	Release(ctx context.Context, lastUsed wire.Stamp, expiresIn time.Duration) (wasHeld bool, err error)
	// Abandon releases the lock off the caller's path.
	Abandon()
	// Swap replaces this hold by one with that request, using script. The session counts the new one in its place.
	Swap(ctx context.Context, script *scripts.Script, request *Request) (Hold, error)
	// Done counts the hold out: nothing waits for its end any more.
	Done()
}
