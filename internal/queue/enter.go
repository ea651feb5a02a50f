// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// Try acquires the lock with these keys if it is free and has no earlier waiter. It fails without a round trip while another
// caller of this session has priority.
func (r *Queues) Try(ctx context.Context, keys *proto.Set, request *Request) (Hold, error) {
	return r.TryIn(ctx, new(QueuedTicket), nil, keys, request)
}

// TryIn is Try with the memory of a ticket that was not made. If the session has no queue of the lock, it uses the memory of unused,
// if that is not nil.
func (r *Queues) TryIn(ctx context.Context, t *QueuedTicket, unused *Queue, keys *proto.Set, request *Request) (Hold, error) {
	if err := r.session.Begin(); err != nil {
		return nil, err
	}
	q := r.useIn(unused, keys)
	a, err := q.tryIn(t.firstCtx.Of(ctx), &t.first, request)
	if err != nil {
		q.Done()
		return nil, err
	}
	t.freeContext()
	return a, nil
}

// tryIn tries with an attempt in that memory. The second try, if the server's clock had to be learned again, has memory of its own:
// the server may still have something of the first attempt.
func (q *Queue) tryIn(ctx context.Context, memory *Attempt, request *Request) (*Attempt, error) {
	if q.busy(request) {
		return nil, errs.ErrHeld
	}
	a, err := q.tryOnce(ctx, memory, request)
	if errors.Is(err, errLate) {
		return q.tryOnce(ctx, new(Attempt), request)
	}
	return a, err
}

// Why an enter that had a reply gave neither the lock nor a ticket.
var (
	errLate = errors.New("the server took longer than the lease lasts") // it was executed after its not-after, with no effect
	// errTooSlow says that the attempt has the lock, but the reply took longer than the hold lasts.
	errTooSlow = fmt.Errorf("%w: its reply came after that", errLate)
	// errSuperseded says that the attempt had the lock, and that the session has a newer hold.
	errSuperseded = fmt.Errorf("%w: the session has a newer hold", errLate)
)

func (q *Queue) tryOnce(ctx context.Context, a *Attempt, request *Request) (*Attempt, error) {
	if err := q.registry.session.Handshake(ctx, q.keys.Holder); err != nil {
		return nil, err
	}
	a.beginTrying(q, request)
	err := enterExchange{a}.sendEnter(ctx)
	switch {
	case err == nil:
		a.endWaiting()
		return a, nil
	case errors.Is(err, errTooSlow):
		// Release the lock before another try, which would otherwise find it held.
		if _, err = a.Release(ctx, 0, request.Life); err == nil {
			err = errLate
		}
		return nil, err
	case errors.Is(err, errSuperseded):
		a.Abandon()
		return nil, errs.ErrHeld
	case !errors.Is(err, errLate) && !errors.Is(err, errs.ErrHeld) && wire.MayHaveRun(err):
		a.Abandon()
		return nil, err
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

func (a *Attempt) currentState() attemptState {
	registry := a.q.registry
	registry.mu.Lock()
	defer registry.mu.Unlock()
	return a.state
}

// sendEnter sends one enter. Afterwards the state of a is what the reply said, or a message meanwhile. The error is errs.ErrHeld
// if a only tries, and another hold has the lock.
func (a enterExchange) sendEnter(ctx context.Context) error {
	sent, registry := timers.Now(), a.q.registry
	runner := registry.session.Runner
	if a.request.KeepFor > 0 {
		registry.session.Forces.ListenForRecalls()
	}
	var keys [maxKeys]string // on the stack, as are the arguments
	var args [maxArgs]string
	registry.mu.Lock()
	ctx, stop := a.withCancelOnGrantLocked(ctx)
	notAfter, isShort := a.prepareEnterLocked(sent), a.mayBeShortLocked()
	call, hasHeartbeat := a.enterCallLocked(keys[:0], args[:0], notAfter, sent, isShort)
	registry.mu.Unlock()
	defer stop()
	reply, err := runner.Run(ctx, call)
	if err == nil && isShort && reply.Code() == wire.NeedsQueue {
		registry.purse.pay(-missCost) // the two calls count as one enter, because the first did nothing
		registry.mu.Lock()
		call, hasHeartbeat = a.enterCallLocked(keys[:0], args[:0], notAfter, sent, false)
		registry.mu.Unlock()
		reply, err = runner.Run(ctx, call)
	}
	if err != nil && wire.TryAgain(err) && registry.protocol.isExclusive() {
		reply, err = a.enterWithHolderKey(ctx, call, err)
	}
	if err != nil {
		a.handleEnterError(err)
		return err
	}
	return a.handleEnterReply(proto.ReadEntered(&reply), sent, hasHeartbeat)
}

// enterWithHolderKey repeats an enter that was refused because its slot is being moved, with the holder key alone. That can
// acquire a free lock that has no queue. The two count as one enter, because the first did nothing.
func (a enterExchange) enterWithHolderKey(ctx context.Context, call wire.Call, refusal error) (wire.Reply, error) {
	reply, err := a.q.registry.session.Runner.Run(ctx, withHolderKeyAlone(call))
	if err == nil && reply.Code() == wire.NeedsQueue {
		a.q.registry.session.Clock.Observe(a.q.keys.Slot, proto.ReadEntered(&reply).Now, timers.Now())
		return reply, refusal
	}
	return reply, err
}

// withCancelOnGrantLocked returns a context for an enter, which ends if a message grants a meanwhile. The reply may be lost, and
// the hold would expire before the loss is known. That is only needed if the session listens, because another caller waits.
func (a enterExchange) withCancelOnGrantLocked(ctx context.Context) (context.Context, context.CancelFunc) {
	if a.q.listener == nil {
		return ctx, func() {}
	}
	ctx, cancel := errs.WithCancel(ctx, errGranted)
	a.waitLocked().cancelEnter = cancel
	return ctx, cancel
}

// mayBeShortLocked reports whether an enter may be short: it has the holder key alone, and takes the lock if that is free. It is short
// if it is the first enter of the only attempt here, and the purse allows it.
func (a enterExchange) mayBeShortLocked() bool {
	registry := a.q.registry
	return registry.protocol.isExclusive() && a.footprint.Sent == 1 && a.q.attempts == 1 && registry.purse.allows()
}

// enterCallLocked returns an enter, which is sent at sent, and whether a heartbeat is in it. Its keys and arguments are appended to
// keys and args.
func (a enterExchange) enterCallLocked(keys, args []string, notAfter wire.Stamp, sent timers.Instant, isShort bool) (call wire.Call, hasHeartbeat bool) { //nolint:revive // a fact about the enter, not a switch
	q, s, texts := a.q, a.q.registry.session, &a.q.registry.mu.enterTexts
	enter := proto.Enter{Unmarked: a.text, NotAfter: texts.notAfter.of(notAfter, wire.Stamp.Text), Label: s.Settings.Label}
	call.Script = q.registry.protocol.Enter
	if isShort {
		enter.LifeMS = texts.life.of(a.request.Life, wire.Milliseconds)
		call.Keys, call.Args = append(keys, q.keys.Holder), enter.AppendTo(args)
		return call, false
	}
	w := proto.Waiting{
		Queues: proto.Flag(a.state != trying), HeartbeatUS: texts.heartbeatLife.of(q.registry.lifeLocked(), micros),
		KeepMS: a.request.FloorTTL, Verb: s.PublishCommand(), Channel: q.channel(),
	}
	if a.state != trying && !q.hasRecentHeartbeatLocked(sent) {
		w.Number = q.registry.heartbeatLocked(sent).number
	}
	call.Keys = q.keys.AppendKeys(keys)
	if q.registry.protocol.isExclusive() {
		enter.LifeMS, enter.Waiting = texts.life.of(a.request.Life, wire.Milliseconds), texts.waiting.of(w, proto.Waiting.Text)
		call.Args = enter.AppendTo(args)
	} else {
		shared := proto.EnterShared{
			Ticket: a.ticket(), LifeUS: texts.life.of(a.request.Life, micros), NotAfter: enter.NotAfter, Waiting: w, Label: enter.Label,
			Terms: a.request.Args, Again: proto.Flag(a.footprint.Sent > 1),
		}
		call.Args = shared.AppendTo(args)
	}
	return call, w.Number != ""
}

// prepareEnterLocked records that an enter is sent at sent, and returns its not-after.
func (a enterExchange) prepareEnterLocked(sent timers.Instant) wire.Stamp {
	notAfter := a.q.registry.session.NotAfter(a.q.keys.Slot, sent, session.MaxPatience)
	notAfter -= notAfter % notAfterGrain
	a.sendLocked(notAfter)
	return notAfter
}

func (a enterExchange) handleEnterError(err error) {
	a.q.registry.mu.Lock()
	defer a.q.registry.mu.Unlock()
	if a.state == granted && a.footprint.Sent == 1 {
		// A message granted the ticket that this enter made: the enter was executed, and was sent once. So no copy of it can
		// come later, and Close need not wait for one.
		a.leftTicketLocked()
		return
	}
	a.footprint.Unknown = a.footprint.Unknown || wire.Judge(err) == wire.Unknown
	if wire.MayHaveRun(err) && !errors.Is(err, errs.ErrWrongKind) {
		a.leftTicketLocked()
	}
}

func (a enterExchange) handleEnterReply(e proto.Entered, sent timers.Instant, hasHeartbeat bool) error { //nolint:revive // a fact about the enter, not a switch
	registry, q, now := a.q.registry, a.q, timers.Now()
	switch {
	case e.Code == wire.Foreign:
		return proto.WrongKind(e.Kind)
	case e.Code == wire.TooFew, e.Code == wire.OtherCapacity:
		return registry.protocol.Refusal(e.Code, e.Capacity)
	case e.Now == 0, e.Code != wire.Done && e.Code != wire.NotDone && e.Code != wire.Late:
		a.handleEnterError(wire.ErrUnreadable)
		return wire.ErrUnreadable
	}
	if registry.session.Clock.Observe(q.keys.Slot, e.Now, now); e.Code == wire.Late {
		return errLate
	}
	if e.Code == wire.NotDone && a.currentState() != trying {
		q.listen()
	}
	registry.mu.Lock()
	defer registry.mu.Unlock()
	if hasHeartbeat && e.Code == wire.NotDone {
		q.recordHeartbeatLocked(sent)
	}
	return a.joinedLocked(e, sent, now)
}

// joinedLocked handles a reply to an enter or a requeue by which a has the lock, or a ticket.
func (a enterExchange) joinedLocked(e proto.Entered, sent, now timers.Instant) error {
	q := a.q
	q.clearPollErrLocked()
	if a.wait != nil {
		a.wait.cancelEnter = nil // it keeps a context
	}
	isDone, isRequesting := e.Code == wire.Done, a.state == entering || a.state == trying
	isSuperseded, isLate := a.q.isSupersededLocked(a.Attempt, e.Stamp), timers.Deadline(sent, a.request.Life).Reached(now)
	switch {
	case !isDone && a.state == trying:
		return errs.ErrHeld
	case isDone && isRequesting && !isSuperseded && !isLate:
		if e.Unmarked && q.registry.protocol.Free != nil {
			a.footprint.Note(session.UnmarkedHoldLeft)
			idleHold(a).foundNoMarkLocked(sent)
		} else {
			a.footprint.Note(session.HoldLeft)
		}
		a.grant = a.newGrant(e.Stamp, e.Stamp, a.request.Life, sent, now)
		a.toLocked(granted)
		return nil
	}
	a.leftTicketLocked()
	switch {
	case !isRequesting:
		return nil // a message was faster
	case isDone && isSuperseded && a.state == trying:
		return errSuperseded
	case isDone && isSuperseded:
		a.awaitPollLocked()
		return errSuperseded
	case isDone:
		return errTooSlow
	}
	a.toLocked(queued)
	a.addToListLocked()
	if e.PollAtOnce {
		q.pollLocked()
	} else if !q.pollScheduled {
		q.schedulePollLocked(e.Left)
	}
	return nil
}

// newGrant returns a grant with the tokens from stamp to last. For an exclusive lock, the grant has all tokens that stamp
// reserves.
func (a enterExchange) newGrant(stamp, last wire.Stamp, life time.Duration, sent, read timers.Instant) Grant {
	if a.q.registry.protocol.isExclusive() {
		last = stamp.ReservedEnd()
	}
	return Grant{Stamp: stamp, Last: last, Life: life, Sent: sent, Read: read.Mono()}
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

// enterTexts are arguments of the last enter. Most enters have the same ones, and so need no allocation for them.
type enterTexts struct {
	life, heartbeatLife text[time.Duration]
	notAfter            text[wire.Stamp]
	waiting             text[proto.Waiting]
}

// text is a value as a text, which is kept as long as the value does not change.
type text[V comparable] struct {
	value V
	kept  string
}

func (t *text[V]) of(value V, write func(V) string) string {
	if t.kept == "" || t.value != value {
		t.value, t.kept = value, write(value)
	}
	return t.kept
}

// notAfterGrain is the unit to which the not-after of an enter is rounded down, about 16 ms. So enters that follow each other
// share the text of their not-after.
const notAfterGrain wire.Stamp = 1 << 14

func micros(d time.Duration) string { return strconv.FormatInt(d.Microseconds(), 10) }

// The calls to the server that concern an attempt are made of parts: the arguments, the sending, and what the reply, or its absence,
// means for the attempt. The parts of a call are methods of its exchange. An exchange is a value around the attempt, made where it is
// used; it has no state of its own.
type (
	// enterExchange asks for the lock, as long as the attempt has no ticket.
	enterExchange struct{ *Attempt }
	// leaveExchange gives up what the attempt has: its hold, or its ticket.
	leaveExchange struct{ *Attempt }
	// requeueExchange releases the hold of another attempt, and joins the queue.
	requeueExchange struct{ *Attempt }
	// swapExchange replaces the hold of another attempt.
	swapExchange struct{ *Attempt }
	// yieldExchange asks whether the hold may be handed over inside the process.
	yieldExchange struct{ *Attempt }
)

// idleHold is what becomes of a granted attempt whose hold no goroutine uses.
type idleHold struct{ *Attempt }
