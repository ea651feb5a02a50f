// SPDX-License-Identifier: Apache-2.0

package retry

import (
	"context"
	"errors"

	"github.com/signalbox-go/signalbox/internal/acquire/queue"
	"github.com/signalbox-go/signalbox/internal/dispatch"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// errLate is the error of a try that found the server too slow twice.
var errLate = errors.New("the server took longer than the lease lasts")

// Try implements queue.Requester. It fails without a round trip while another call of this session is ahead of
// the caller.
func (l *retriedLock) Try(ctx context.Context, request *queue.Request) (queue.ServerHold, error) {
	if l.busy(request) {
		return nil, errs.ErrHeld
	}
	a := l.newAttempt(request)
	for range 2 { // the second try if the server's clock had to be read anew
		result, err := a.try(ctx)
		switch {
		case err == nil && result.outcome == tryLate:
			continue
		case err == nil && result.outcome == tryGranted:
			return a, nil
		case err == nil:
			err = errs.ErrHeld
		}
		a.Abandon()
		return nil, err
	}
	a.Abandon()
	return nil, errLate
}

// retriedRequest is an attempt that waits, and tries repeatedly.
type retriedRequest struct {
	lock      *retriedLock
	request   *queue.Request
	attempt   *attempt
	lastReply wire.LastReply
	wait      *dispatch.Wait // nil until there is something to wait for; only the waiter uses it
}

// Prepare implements queue.Requester.
func (l *retriedLock) Prepare(request *queue.Request, _ *queue.QueuedRequest) queue.WaitingRequest {
	r := &retriedRequest{lock: l, request: request, attempt: l.newAttempt(request)}
	r.attempt.waiting = true
	return r
}

// Join tries once, unless this session backs off, and reports whether the lock was granted. If not, Wait continues.
func (r *retriedRequest) Join(ctx context.Context) (isGranted bool, err error) {
	// Close sets closing, and then wakes all registered waiters, also waiters that register later: it wakes r, or r finds
	// closing set.
	if err := r.lock.registry.session.Ready(); err != nil {
		return false, err
	}
	if ctx.Err() != nil {
		return false, r.lastReply.Ended(ctx)
	}
	if r.backsOff() {
		return false, nil
	}
	return r.try(ctx)
}

// Wait implements queue.WaitingRequest.
func (r *retriedRequest) Wait(ctx context.Context) error {
	for {
		select {
		case <-r.wait.C:
		case <-ctx.Done():
			return r.lastReply.Ended(ctx)
		}
		if isGranted, err := r.Join(ctx); isGranted || err != nil {
			return err
		}
	}
}

// backsOff reports whether the session backs off. Then r is woken to try when that is over.
func (r *retriedRequest) backsOff() bool {
	pause := r.lock.backOffLeft()
	if pause <= 0 {
		return false
	}
	if r.wait != nil {
		r.wait.WakeAfter(pause)
	} else {
		r.setWait(r.lock.registry.session.Dispatch.BackOff(r.target(), pause))
	}
	return true
}

// try tries once, and schedules the next. It reports whether the lock was granted.
func (r *retriedRequest) try(ctx context.Context) (done bool, err error) {
	d := r.lock.registry.session.Dispatch
	if r.wait == nil {
		r.setWait(d.WaitIfSubscribed(r.target()))
	}
	result, err := r.attempt.try(ctx)
	key, outages := r.lock.keys.Holder, &r.lock.registry.session.Outages
	switch {
	case err == nil && result.outcome == tryLate:
		outages.Late(key, errLate)
	case err == nil:
		outages.InTime(key)
	}
	switch {
	case err == nil && result.outcome == tryGranted:
		return true, nil
	case err == nil && result.outcome == tryHeld:
		r.lastReply.RecordHeld()
		r.registerWait().FoundHeld(result.heldFor)
		return false, nil
	}
	if err = r.lastReply.Record(ctx, err); err != nil {
		return false, err
	}
	r.registerWait().WakeAfter(session.BackOffPause(r.lastReply.Failures))
	r.lastReply.Failures++
	return false, nil
}

func (r *retriedRequest) registerWait() *dispatch.Wait {
	if r.wait == nil {
		r.setWait(r.lock.registry.session.Dispatch.Wait(r.target()))
	}
	return r.wait
}

// setWait registers r with w, if there is one.
func (r *retriedRequest) setWait(w *dispatch.Wait) {
	if r.wait = w; w != nil {
		r.lastReply.SetPoller(w)
	}
}

// target returns what r waits for.
func (r *retriedRequest) target() dispatch.Target {
	kind, keys := r.lock.registry.config, r.lock.keys
	target := dispatch.Target{
		Channel: keys.Channel, Key: keys.Holder, Poll: kind.Poll, WaiterID: kind.Layout.WaiterID, ChannelTypes: session.ChannelTypesOf(kind.Layout), Silent: kind.Silent,
	}
	if r.request.Concurrent {
		target.Poll = kind.PollShared
	}
	if kind.ChannelPerWaiter {
		target.Channel += r.attempt.holdID
	}
	return target
}

// Ended implements queue.WaitingRequest.
func (r *retriedRequest) Ended(ctx context.Context) error { return r.lastReply.Ended(ctx) }

// Leave implements queue.WaitingRequest.
func (r *retriedRequest) Leave() queue.ServerHold {
	if r.wait != nil {
		r.wait.Close()
	}
	if r.attempt.hasLock() {
		return r.attempt
	}
	r.attempt.Abandon()
	return nil
}
