// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// Try implements Requester. It acquires the lock if it is free and has no earlier waiter, and fails without a round trip while
// another caller of this session has priority.
func (q *Queue) Try(ctx context.Context, request *Request) (ServerHold, error) {
	if q.busy(request) {
		return nil, errs.ErrHeld
	}
	var err error
	for range 2 { // the second try if the server's clock had to be learned again
		var a ServerHold
		if a, err = q.tryOnce(ctx, request); !errors.Is(err, errLate) {
			return a, err
		}
	}
	return nil, err
}

// errLate is the error of a try that the server executed after its not-after.
var errLate = errors.New("the server took longer than the lease lasts")

func (q *Queue) tryOnce(ctx context.Context, request *Request) (ServerHold, error) {
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
		a.endWaiting()
		return a, nil
	case err == nil && result == enterTooSlow:
		// Release the lock before another try, which would otherwise find it held.
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
	a.end()
	a.forget()
	return nil, err
}

// errGranted says that a message granted an attempt before the reply to its enter.
var errGranted = errors.New("it was granted by a message meanwhile")

// errTicketLost says that an attempt lost its ticket: the server had no heartbeat of the session for too long, or lost data.
// errTicketLostWhileHeld says that another hold has the lock meanwhile.
var (
	errTicketLost          = errors.New("it has no ticket any more")
	errTicketLostWhileHeld = fmt.Errorf("%w, and the lock is held", errTicketLost)
)

// wait joins the queue and blocks until a is granted the lock, or returns why it is not.
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
		case ticketLost, over, withdrawn:
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
		default:
		}
	}
}

// join sends enters until a is no longer entering, or returns why it gives up. It pauses after an enter without a result.
func (a *Attempt) join(ctx context.Context, last *wire.LastReply) error {
	s, key := a.q.registry.session, a.q.keys.Holder
	a.q.listenIfSubscribed()
	for {
		// Close sets closing and then wakes all waiters. Either it finds a, which is registered, or a finds closing set.
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
		err := s.Handshake(ctx, key)
		result := enterQueued
		if err == nil {
			result, err = a.sendEnter(ctx)
		}
		switch {
		case err != nil:
			err = last.Record(ctx, err)
		case result == enterGranted:
			s.Outages.InTime(key)
			last.Failures = 0
			continue
		case result == enterQueued:
			s.Outages.InTime(key)
			last.RecordHeld() // here, because ctx may have ended meanwhile, and this is the last reply all the same
			continue
		default:
			s.Outages.Late(key, errLate)
		}
		if err == nil {
			err = a.pause(ctx, last)
		}
		if err != nil {
			return err
		}
	}
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
	enterGranted    enterResult = iota // the attempt has the lock
	enterQueued                        // the attempt waits in the queue; or it only tried, and does not have the lock
	enterLate                          // the enter was executed after its not-after, with no effect
	enterTooSlow                       // the attempt has the lock, but the reply took longer than the hold lasts
	enterSuperseded                    // the attempt had the lock, and the session has a newer hold
)

// maxArgs is the greatest number of arguments of an enter: ten, those of the request, and a last one.
const maxArgs = 14

// sendEnter sends one enter. It grants a if the reply says so, or if a message did meanwhile.
func (a *Attempt) sendEnter(ctx context.Context) (enterResult, error) {
	q, s := a.q, a.q.registry.session
	ctx, stop := a.withCancelOnGrant(ctx)
	defer stop()
	sent := clock.Now()
	enter := a.prepareEnter(sent)
	call := wire.Call{Script: q.registry.protocol.Enter, Keys: q.keys.All}
	var args [maxArgs]string // on the stack
	call.Args = append(args[:0],
		a.ticket(), enter.life, enter.notAfter, flag(enter.mayQueue),
		enter.heartbeatLife, enter.heartbeat, s.Settings.Label, s.PublishCommand(), q.keys.Channel, a.request.FloorTTL)
	call.Args = append(call.Args, a.request.Args...)
	if !q.registry.protocol.isExclusive() {
		call.Args = append(call.Args, flag(enter.isRepeated))
	}
	reply, err := s.Runner.Run(ctx, call)
	if err != nil && wire.TryAgain(err) && q.registry.protocol.isExclusive() {
		reply, err = a.enterWithHolderKey(ctx, call, err)
	}
	if err != nil {
		a.handleEnterError(err)
		return enterQueued, err
	}
	if enter.mayQueue && reply.Code() == wire.NotDone {
		q.listen()
	}
	return a.handleEnterReply(reply, sent, enter.heartbeat)
}

// enterWithHolderKey repeats an enter that was refused because its slot is being moved, with the holder key alone. That can
// acquire a free lock that has no queue. The two count as one enter, because the first did nothing.
func (a *Attempt) enterWithHolderKey(ctx context.Context, call wire.Call, refusal error) (wire.Reply, error) {
	reply, err := a.q.registry.session.Runner.Run(ctx, a.q.withHolderKeyAlone(call))
	if err == nil && reply.Code() == wire.NeedsQueue {
		a.q.registry.session.Clock.Observe(a.q.keys.Slot, reply.Stamp(1), clock.Now())
		return reply, refusal
	}
	return reply, err
}

// withCancelOnGrant returns a context for an enter, which ends if a message grants a meanwhile. The reply may be lost, and
// the hold would expire before the loss is known. That is only needed if the session listens, because another caller waits.
func (a *Attempt) withCancelOnGrant(ctx context.Context) (context.Context, context.CancelFunc) {
	a.q.registry.mu.Lock()
	defer a.q.registry.mu.Unlock()
	if a.q.listener == nil {
		return ctx, func() {}
	}
	ctx, a.cancelEnter = errs.WithCancel(ctx, errGranted)
	return ctx, a.cancelEnter
}

// prepareEnter prepares one enter, which is sent at sent.
func (a *Attempt) prepareEnter(sent clock.Instant) enterArgs {
	q, s := a.q, a.q.registry.session
	q.registry.mu.Lock()
	defer q.registry.mu.Unlock()
	life := q.registry.lifeLocked()
	notAfter := s.NotAfter(q.keys.Slot, sent, session.MaxPatience)
	notAfter -= notAfter % notAfterGrain
	a.sendLocked(notAfter)
	args := enterArgs{mayQueue: a.state != trying, isRepeated: a.footprint.Sent > 1}
	if args.mayQueue && !q.hasRecentHeartbeatLocked(sent) {
		args.heartbeat = q.registry.heartbeatLocked(sent).number
	}
	args.timeArgs = q.registry.mu.timeArgs.argsOf(a.request.Life, notAfter, life)
	return args
}

// handleEnterError handles the error of an enter.
func (a *Attempt) handleEnterError(err error) {
	a.q.registry.mu.Lock()
	defer a.q.registry.mu.Unlock()
	if a.state == granted && a.footprint.Sent == 1 {
		// A message granted the ticket that this enter made: the enter was executed, and was sent once. So no copy of it can
		// come later, and Close need not wait for one.
		a.leftTicketLocked()
		return
	}
	a.footprint.Unknown = a.footprint.Unknown || wire.Judge(err) == wire.Unknown
	if !leavesNothing(err) {
		a.leftTicketLocked()
	}
}

// leavesNothing reports whether the error of a call shows that the server has nothing of the attempt, or can no longer be
// asked: the key belongs to another program, or the client was closed.
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

// joinedLocked handles a reply to an enter or a requeue by which a has the lock, or a ticket.
func (a *Attempt) joinedLocked(reply wire.Reply, sent, now clock.Instant) enterResult {
	q := a.q
	q.clearPollErrLocked()
	stamp, isDone, isRequesting := reply.Stamp(1), reply.Code() == wire.Done, a.state == entering || a.state == trying
	isSuperseded, isLate := a.isSupersededLocked(stamp), clock.Deadline(sent, a.request.Life).Reached(now)
	switch {
	case !isDone && a.state == trying:
		return enterQueued
	case isDone && isRequesting && !isSuperseded && !isLate:
		a.footprint.Leave(session.HoldLeft)
		a.grant = a.newGrant(stamp, stamp, a.request.Life, sent, now)
		a.toLocked(granted)
		return enterGranted
	}
	a.leftTicketLocked()
	switch {
	case !isRequesting:
		return enterQueued // a message was faster
	case isDone && isSuperseded && a.state == trying:
		return enterSuperseded
	case isDone && isSuperseded:
		a.awaitPollLocked()
		return enterSuperseded
	case isDone:
		return enterTooSlow
	}
	a.toLocked(queued)
	a.addToListLocked()
	if reply.Int(2) == 1 {
		q.pollLocked()
	} else if !q.pollScheduled {
		q.schedulePollLocked(time.Duration(reply.Int(1)) * time.Microsecond)
	}
	return enterQueued
}

// newGrant returns a grant with the tokens from stamp to last. For an exclusive lock, the grant has all tokens that stamp
// reserves.
func (a *Attempt) newGrant(stamp, last wire.Stamp, life time.Duration, sent, read clock.Instant) Grant {
	if a.q.registry.protocol.isExclusive() {
		last = stamp.ReservedEnd()
	}
	return Grant{Stamp: stamp, Last: last, Life: life, Sent: sent, Read: read}
}

// pause waits before the next enter of a, or until a is woken.
func (a *Attempt) pause(ctx context.Context, last *wire.LastReply) error {
	failures := last.Failures
	last.Failures++
	if a.sleep(ctx, session.BackOffPause(failures)); ctx.Err() != nil {
		return last.Ended(ctx)
	}
	return nil
}
