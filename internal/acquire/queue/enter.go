// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/dispatch"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// Try acquires the lock if it is free and has no earlier waiter. It fails without a round trip while another
// caller of this session is before it.
func (q *Queue) Try(ctx context.Context, request *Request) (*Attempt, error) {
	if q.busy(request) {
		return nil, errs.ErrHeld
	}
	var err error
	for range 2 { // the second if the server's clock had to be learnt again
		var a *Attempt
		if a, err = q.tryOnce(ctx, request); !errors.Is(err, errLate) {
			return a, err
		}
	}
	return nil, err
}

// errLate is the error of a try that the server executed after its not-after.
var errLate = errors.New("the server took longer than the lease lasts")

func (q *Queue) tryOnce(ctx context.Context, request *Request) (*Attempt, error) {
	if err := q.registry.session.Handshake(ctx, q.keys.Holder); err != nil {
		return nil, err
	}
	a := q.newAttempt(request)
	result, err := a.sendEnter(ctx)
	switch {
	case err != nil && wire.MayHaveRun(err):
		a.Abandon()
		return nil, err
	case err == nil && result == enterGranted:
		a.endWaiting(begun)
		return a, nil
	case err == nil && result == enterTooSlow:
		// Release it before another try, which would otherwise find it held.
		if _, err = a.Release(ctx, 0, request.Life); err == nil {
			err = errLate
		}
		return nil, err
	case err == nil && result == enterSuperseded:
		a.Abandon()
		return nil, errs.ErrHeld
	case err == nil && result == enterLate:
		err = errLate
	case err == nil:
		err = errs.ErrHeld
	}
	a.forget()
	return nil, err
}

// QueuedRequest is a waiter in the queue: an attempt, and a new one when that has lost its ticket. One goroutine at a
// time waits with it, and may leave the waiting to another.
type QueuedRequest struct {
	q         *Queue
	request   *Request
	attempt   *Attempt
	lastReply wire.LastReply
}

// Prepare makes p a place in the queue, and returns it. Nothing is sent before Enter.
func (q *Queue) Prepare(request *Request, p *QueuedRequest) *QueuedRequest {
	p.q, p.request, p.attempt = q, request, q.newWaitingAttempt(request)
	p.lastReply.SetPoller(q)
	return p
}

// Join enters the queue. It returns when the attempt has a ticket or was granted the lock, or returns why it
// has neither. The ticket is kept until Leave.
func (p *QueuedRequest) Join(ctx context.Context) (isGranted bool, err error) {
	if err = p.attempt.join(ctx, &p.lastReply); err != nil {
		return false, err
	}
	state, _ := p.attempt.currentState()
	return state == granted && !p.attempt.pollIfExpired(), nil
}

// Wait blocks until the lock is granted, or returns why it is not. The ticket is kept until Leave.
func (p *QueuedRequest) Wait(ctx context.Context) error {
	for {
		err := p.attempt.wait(ctx, &p.lastReply)
		if !errors.Is(err, errTicketLost) {
			return err
		}
		behind := p.attempt.lockWasHeld // nothing writes it any more
		p.attempt.endWaiting(over)
		p.attempt.Abandon()
		p.attempt = p.q.newWaitingAttempt(p.request)
		if behind {
			p.attempt.sleep(ctx, rand.N(rejoinWithin))
		}
	}
}

// rejoinWithin is how long sessions take to queue again, each after a random part of it, once they have lost their tickets
// and one of them, or another one, has the lock. After a failover all sessions find that out together.
const rejoinWithin = dispatch.PollInterval * 2 / 5

// Ended returns the error for a goroutine whose ctx has ended while another one waited for both with this
// ticket.
func (p *QueuedRequest) Ended(ctx context.Context) error { return p.lastReply.Ended(ctx) }

// Leave ends the ticket, and returns what was granted, in the same instant too, or nil.
func (p *QueuedRequest) Leave() *Attempt {
	if p.attempt.endWaiting(over) {
		return p.attempt
	}
	p.attempt.Abandon()
	return nil
}

// errGranted says that a message granted an attempt before the reply to its enter.
var errGranted = errors.New("it was granted by a message meanwhile")

// errTicketLost says that an attempt lost its ticket: its session was not heard of for too long, or the
// server lost what it knew.
var errTicketLost = errors.New("it stands in line no more")

// wait enters the queue and waits until a is granted, or returns why it is not.
func (a *Attempt) wait(ctx context.Context, last *wire.LastReply) error {
	for {
		if err := a.join(ctx, last); err != nil {
			return err
		}
		state, refusal := a.currentState()
		switch state {
		case granted:
			if a.pollIfExpired() {
				continue
			}
			return nil
		case ticketLost:
			return errTicketLost
		case over:
			return refusal
		case queued:
			woken, state := a.wakeChannel()
			if state != queued || a.q.registry.session.Ready() != nil {
				continue // Close may have come before the channel
			}
			select {
			case <-woken:
			case <-ctx.Done():
			}
		case entering, begun:
		}
	}
}

// join enters the queue until a is no longer entering, or returns why that cannot be.
func (a *Attempt) join(ctx context.Context, last *wire.LastReply) error {
	s := a.q.registry.session
	a.q.listenIfSubscribed()
	for {
		// Close sets closing and then wakes all waiters. Either it finds a, which was begun, or a finds
		// closing set.
		if err := s.Ready(); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return last.Ended(ctx)
		}
		if state, _ := a.currentState(); state != entering {
			if state == queued {
				last.RecordHeld()
			}
			return nil
		}
		if err := a.joinOnce(ctx, last); err != nil {
			return err
		}
	}
}

// joinOnce enters the queue once, and pauses if that had no result.
func (a *Attempt) joinOnce(ctx context.Context, last *wire.LastReply) error {
	s := a.q.registry.session
	err := s.Handshake(ctx, a.q.keys.Holder)
	result := enterQueued
	if err == nil {
		result, err = a.sendEnter(ctx)
	}
	switch {
	case err != nil:
		if err = last.Record(ctx, err); err != nil {
			return err
		}
	case result == enterGranted:
		s.Outages.InTime(a.q.keys.Holder)
		last.Failures = 0
		return nil
	case result == enterQueued:
		s.Outages.InTime(a.q.keys.Holder)
		last.RecordHeld() // here, since ctx may have ended meanwhile: it is the last reply all the same
		return nil
	default:
		s.Outages.Late(a.q.keys.Holder, errLate)
	}
	return a.pause(ctx, last)
}

func (a *Attempt) currentState() (attemptState, error) {
	registry := a.q.registry
	registry.mu.Lock()
	defer registry.mu.Unlock()
	return a.state, a.refusal
}

// enterResult is what the reply to an enter says.
type enterResult int

const (
	enterGranted    enterResult = iota
	enterQueued                 // it waits in the queue; or it came to try, and does not have the lock
	enterLate                   // executed after its not-after, with no effect
	enterTooSlow                // it has the lock, but the reply took longer than the hold lasts
	enterSuperseded             // it had the lock, and the session has a newer hold
)

// maxArgs is how many arguments an enter has at most: ten, those of the request, and a last one.
const maxArgs = 14

// sendEnter sends one enter. It grants a if the reply says so, or if a message did meanwhile.
func (a *Attempt) sendEnter(ctx context.Context) (enterResult, error) {
	q, s := a.q, a.q.registry.session
	ctx, stop := a.withCancelOnGrant(ctx)
	defer stop()
	sent := clock.Now()
	number, times, again := a.prepareEnter(sent)
	call := wire.Call{Script: q.registry.protocol.Enter, Keys: q.keys.All}
	var room [maxArgs]string // on the stack
	call.Args = append(room[:0],
		a.ticket(), times.life, times.notAfter, flag(a.mayQueue),
		times.heartbeatLife, number, s.Settings.Label, s.PublishCommand(), q.keys.Channel, a.request.FloorTTL)
	call.Args = append(call.Args, a.request.Args...)
	if !q.registry.protocol.isExclusive() {
		call.Args = append(call.Args, flag(again))
	}
	reply, err := s.Runner.Run(ctx, call)
	if err != nil && wire.TryAgain(err) && q.registry.protocol.isExclusive() {
		reply, err = a.enterWithHolderKey(ctx, call, err)
	}
	if err != nil {
		a.handleEnterError(err)
		return enterQueued, err
	}
	if a.mayQueue && reply.Code() == wire.NotDone {
		q.listen()
	}
	return a.handleEnterReply(reply, sent, number)
}

// enterWithHolderKey repeats an enter that was refused because its slot is being moved, with the holder key alone: that can
// acquire a free lock without a queue. The two count as one enter: the first did nothing.
func (a *Attempt) enterWithHolderKey(ctx context.Context, call wire.Call, refusal error) (wire.Reply, error) {
	reply, err := a.q.registry.session.Runner.Run(ctx, a.q.withHolderKeyAlone(call))
	if err == nil && reply.Code() == wire.NeedsQueue {
		a.q.registry.session.Clock.Observe(a.q.keys.Slot, reply.Stamp(1), clock.Now())
		return reply, refusal
	}
	return reply, err
}

// withCancelOnGrant returns a context for an enter that ends when a is granted meanwhile: the reply may be lost, and
// the hold would expire before the loss is known. It is only needed if another caller waits.
func (a *Attempt) withCancelOnGrant(ctx context.Context) (context.Context, context.CancelFunc) {
	a.q.registry.mu.Lock()
	defer a.q.registry.mu.Unlock()
	if a.q.listener == nil {
		return ctx, func() {}
	}
	ctx, a.cancelEnter = errs.WithCancel(ctx, errGranted)
	return ctx, a.cancelEnter
}

// prepareEnter prepares one enter: its heartbeat, "" if none is needed, its not-after, and how long the heartbeat makes the
// session live. again reports whether it is not the first.
func (a *Attempt) prepareEnter(sent clock.Instant) (number string, t timeArgs, again bool) {
	q, s := a.q, a.q.registry.session
	q.registry.mu.Lock()
	defer q.registry.mu.Unlock()
	life := q.registry.lifeLocked()
	notAfter := s.NotAfter(q.keys.Slot, sent, session.MaxPatience)
	a.recordSendLocked(notAfter - notAfter%notAfterGrain)
	if a.mayQueue && !q.hasRecentHeartbeatLocked(sent) {
		number = q.registry.heartbeatLocked(sent).number
	}
	return number, q.registry.mu.timeArgs.argsOf(a.request.Life, a.notAfter, life), a.entersSent > 1
}

// handleEnterError handles the error of an enter.
func (a *Attempt) handleEnterError(err error) {
	a.q.registry.mu.Lock()
	defer a.q.registry.mu.Unlock()
	if a.state == granted && a.entersSent == 1 {
		// A message granted the ticket that this enter made: it was executed, and was sent once. So no copy of it can come
		// later, and Close need not wait for one.
		a.joined = true
		return
	}
	a.outcomeUnknown = a.outcomeUnknown || wire.Judge(err) == wire.Unknown
	a.enterRefused = a.enterRefused || !leavesNothing(err)
}

// leavesNothing reports whether a refused call shows that the server has nothing of its attempt, or can be asked no more: the
// key belongs to another program, or the client was closed.
func leavesNothing(err error) bool {
	return errors.Is(err, errs.ErrWrongKind) || errors.Is(err, errs.ErrClosed)
}

// handleEnterReply handles the reply to an enter.
func (a *Attempt) handleEnterReply(reply wire.Reply, sent clock.Instant, number string) (enterResult, error) {
	registry, q, now := a.q.registry, a.q, clock.Now()
	switch code := reply.Code(); {
	case code == wire.Done && reply.Stamp(1) != 0 && reply.Stamp(2) != 0:
		registry.session.Clock.Observe(q.keys.Slot, reply.Stamp(2), now)
	case code == wire.NotDone && reply.Stamp(3) != 0:
		registry.session.Clock.Observe(q.keys.Slot, reply.Stamp(3), now)
	case code == wire.Late && reply.Stamp(1) != 0:
		registry.session.Clock.Observe(q.keys.Slot, reply.Stamp(1), now)
		return enterLate, nil
	case code == wire.Foreign:
		return enterQueued, session.WrongKind(reply.Text(1))
	case code == wire.TooFew, code == wire.OtherCapacity:
		return enterQueued, q.registry.protocol.Refusal(reply)
	default:
		a.handleEnterError(wire.ErrUnreadable)
		return enterQueued, wire.ErrUnreadable
	}
	registry.mu.Lock()
	defer registry.mu.Unlock()
	if number != "" && reply.Code() == wire.NotDone {
		q.recordHeartbeatLocked(sent)
	}
	return a.joinedLocked(reply, sent, now), nil
}

// joinedLocked handles the reply to an enter or a requeue that gave a the lock, or a ticket.
func (a *Attempt) joinedLocked(reply wire.Reply, sent, now clock.Instant) enterResult {
	q := a.q
	a.joined = true
	q.clearPollErrLocked()
	stamp := reply.Stamp(1)
	switch isDone := reply.Code() == wire.Done; {
	case a.state != entering:
		return enterQueued // a message was faster
	case isDone && a.isSupersededLocked(stamp):
		a.awaitPollLocked()
		return enterSuperseded
	case isDone && clock.Deadline(sent, a.request.Life).Reached(now):
		return enterTooSlow
	case isDone:
		a.grantedAtOnce = true
		a.grant, a.state = a.newGrant(stamp, stamp, a.request.Life, sent, now), granted
		return enterGranted
	}
	a.state = queued
	a.addToWaitingLocked()
	if reply.Int(2) == 1 {
		q.pollLocked()
	} else if !q.pollScheduled {
		q.schedulePollLocked(time.Duration(reply.Int(1)) * time.Microsecond)
	}
	return enterQueued
}

// newGrant returns what the server gave a: the tokens from stamp to last, or of an exclusive lock all that stamp reserves.
func (a *Attempt) newGrant(stamp, last wire.Stamp, life time.Duration, sent, read clock.Instant) Grant {
	if a.q.registry.protocol.isExclusive() {
		last = stamp.ReservedEnd()
	}
	return Grant{Stamp: stamp, Last: last, Life: life, Sent: sent, Read: read}
}

// pause waits before the next try of a, or until there is news of it.
func (a *Attempt) pause(ctx context.Context, last *wire.LastReply) error {
	fails := last.Failures
	last.Failures++
	if a.sleep(ctx, session.BackOffPause(fails)); ctx.Err() != nil {
		return last.Ended(ctx)
	}
	return nil
}
