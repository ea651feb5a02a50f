// SPDX-License-Identifier: Apache-2.0

package acquire

import (
	"context"
	"errors"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/notify"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/queue"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// Try acquires the lock with these names if it is free. It fails without a round trip while another call of this session is
// ahead of the caller.
func (r *RetryRegistry) Try(ctx context.Context, n *proto.Set, request *queue.Request) (queue.Hold, error) {
	l, err := r.begin(n)
	if err != nil {
		return nil, err
	}
	a, err := l.try(ctx, request)
	if err != nil {
		l.done()
		return nil, err
	}
	return a, nil
}

func (l *retriedLock) try(ctx context.Context, request *queue.Request) (*attempt, error) {
	if l.busy(request) {
		return nil, errs.ErrHeld
	}
	a, err := l.newAttempt(request), errLate
	for n := 0; n < 2 && errors.Is(err, errLate); n++ { // the second try if the server's clock had to be read anew
		_, err = a.try(ctx)
	}
	if err != nil {
		a.Abandon()
		return nil, err
	}
	return a, nil
}

// retriedTicket is an attempt that waits, and tries repeatedly.
type retriedTicket struct {
	lock        *retriedLock
	request     *queue.Request
	attempt     *attempt
	lastReply   wire.LastReply
	wait        *notify.Wait    // nil until there is something to wait for; only the waiter uses it
	waitedSince timers.Instant  // when the first Join returned without a grant
	firstCtx    wire.NoDeadline // the context of the first Join
}

// NewTicket returns a ticket for the lock with these names, or why the session accepts none. Nothing is sent before its Join.
func (r *RetryRegistry) NewTicket(n *proto.Set, request *queue.Request) (queue.Ticket, error) {
	l, err := r.begin(n)
	if err != nil {
		return nil, err
	}
	t := &retriedTicket{lock: l, request: request, attempt: l.newAttempt(request)}
	t.attempt.waiting = true
	return t, nil
}

// Join tries once, unless this session backs off, and reports whether the lock was granted. If not, Wait continues.
func (t *retriedTicket) Join(ctx context.Context) (isGranted bool, err error) {
	if t.firstCtx.Context == nil {
		ctx = t.firstCtx.Of(ctx)
	}
	isGranted, err = t.join(ctx)
	if !isGranted && t.waitedSince.IsZero() {
		t.waitedSince = timers.Now()
	}
	return isGranted, err
}

func (t *retriedTicket) join(ctx context.Context) (isGranted bool, err error) {
	// Close sets closing, and then wakes all registered waiters, also waiters that register later: it wakes t, or t finds
	// closing set.
	if err := t.lock.registry.session.Ready(); err != nil {
		return false, err
	}
	if ctx.Err() != nil {
		return false, t.lastReply.Ended(ctx)
	}
	if runner := t.lock.registry.session.Runner; !runner.IsConnected() {
		if err := t.lastReply.AwaitConnection(ctx, runner); err != nil {
			return false, err
		}
	}
	if t.backsOff() {
		return false, nil
	}
	return t.try(ctx)
}

// Wait implements waitroom.Ticket.
func (t *retriedTicket) Wait(ctx context.Context) error {
	for {
		select {
		case <-t.wait.C:
		case <-ctx.Done():
			return t.lastReply.Ended(ctx)
		}
		if isGranted, err := t.Join(ctx); isGranted || err != nil {
			return err
		}
	}
}

// backsOff reports whether the session backs off. Then t is woken to try when that is over.
func (t *retriedTicket) backsOff() bool {
	pause := t.lock.backOffLeft()
	if pause <= 0 {
		return false
	}
	if t.wait != nil {
		t.wait.WakeAfter(pause)
	} else {
		t.setWait(t.lock.registry.session.Dispatch.BackOff(t.target(), pause))
	}
	return true
}

// try tries once, and schedules the next. It reports whether the lock was granted.
func (t *retriedTicket) try(ctx context.Context) (done bool, err error) {
	d := t.lock.registry.session.Dispatch
	if t.wait == nil {
		t.setWait(d.WaitIfSubscribed(t.target()))
	}
	heldFor, err := t.attempt.try(ctx)
	key, outages := t.lock.names.Holder, &t.lock.registry.session.Outages
	switch {
	case err == nil:
		outages.InTime(key)
		return true, nil
	case errors.Is(err, errs.ErrHeld):
		outages.InTime(key)
		t.lastReply.RecordHeld()
		t.registerWait().FoundHeld(heldFor)
		return false, nil
	case errors.Is(err, errLate):
		outages.Late(key, errLate)
		err = nil
	}
	if err = t.lastReply.Record(ctx, err); err != nil {
		return false, err
	}
	t.registerWait().WakeAfter(session.BackOffPause(t.lastReply.Failures))
	t.lastReply.Failures++
	return false, nil
}

func (t *retriedTicket) registerWait() *notify.Wait {
	if t.wait == nil {
		t.setWait(t.lock.registry.session.Dispatch.Wait(t.target()))
	}
	return t.wait
}

// setWait registers t with w, if there is one.
func (t *retriedTicket) setWait(w *notify.Wait) {
	if t.wait = w; w != nil {
		t.lastReply.SetPoller(w)
	}
}

// target returns what t waits for.
func (t *retriedTicket) target() notify.Target {
	kind, keys := t.lock.registry.config, t.lock.keys
	target := notify.Target{
		Channel: keys.Channel, Key: t.lock.names.Holder, Poll: kind.Poll, WaiterID: kind.Layout.WaiterID, ChannelTypes: session.ChannelTypesOf(kind.Layout), Silent: kind.Silent,
	}
	if t.request.Concurrent {
		target.Poll = kind.PollShared
	}
	if kind.ChannelPerWaiter {
		target.Channel += t.attempt.holdID
	}
	return target
}

// Ended implements waitroom.Ticket.
func (t *retriedTicket) Ended(ctx context.Context) error { return t.lastReply.Ended(ctx) }

// Granted implements queue.Ticket.
func (t *retriedTicket) Granted() (h queue.Hold, waitedSince timers.Instant) {
	if !t.attempt.hasLock() {
		t.Leave()
		return nil, t.waitedSince
	}
	t.endWait()
	return t.attempt, t.waitedSince
}

// Leave implements waitroom.Ticket.
func (t *retriedTicket) Leave() {
	t.endWait()
	t.attempt.Abandon()
	t.lock.done()
}

func (t *retriedTicket) endWait() {
	if t.wait != nil {
		t.wait.Close()
	}
}
