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
	p := &retriedRequest{lock: l, request: request, attempt: l.newAttempt(request)}
	p.attempt.waiting = true
	return p
}

// Join tries once, unless this session backs off, and reports whether the lock was granted. If not, Wait continues.
func (p *retriedRequest) Join(ctx context.Context) (isGranted bool, err error) {
	// Close sets closing, and then wakes all registered waiters, also waiters that register later: it wakes p, or p finds
	// closing set.
	if err := p.lock.registry.session.Ready(); err != nil {
		return false, err
	}
	if ctx.Err() != nil {
		return false, p.lastReply.Ended(ctx)
	}
	if p.backsOff() {
		return false, nil
	}
	return p.try(ctx)
}

// Wait implements queue.WaitingRequest.
func (p *retriedRequest) Wait(ctx context.Context) error {
	for {
		select {
		case <-p.wait.C:
		case <-ctx.Done():
			return p.lastReply.Ended(ctx)
		}
		if isGranted, err := p.Join(ctx); isGranted || err != nil {
			return err
		}
	}
}

// backsOff reports whether the session backs off. Then p is woken to try when that is over.
func (p *retriedRequest) backsOff() bool {
	pause := p.lock.backOffLeft()
	if pause <= 0 {
		return false
	}
	if p.wait != nil {
		p.wait.WakeAfter(pause)
	} else {
		p.setWait(p.lock.registry.session.Dispatch.BackOff(p.target(), pause))
	}
	return true
}

// try tries once, and schedules the next. It reports whether the lock was granted.
func (p *retriedRequest) try(ctx context.Context) (done bool, err error) {
	d := p.lock.registry.session.Dispatch
	if p.wait == nil {
		p.setWait(d.WaitIfSubscribed(p.target()))
	}
	result, err := p.attempt.try(ctx)
	key, outages := p.lock.keys.Holder, &p.lock.registry.session.Outages
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
		p.lastReply.RecordHeld()
		p.registerWait().FoundHeld(result.heldFor)
		return false, nil
	}
	if err = p.lastReply.Record(ctx, err); err != nil {
		return false, err
	}
	p.registerWait().WakeAfter(session.BackOffPause(p.lastReply.Failures))
	p.lastReply.Failures++
	return false, nil
}

func (p *retriedRequest) registerWait() *dispatch.Wait {
	if p.wait == nil {
		p.setWait(p.lock.registry.session.Dispatch.Wait(p.target()))
	}
	return p.wait
}

// setWait registers p with w, if there is one.
func (p *retriedRequest) setWait(w *dispatch.Wait) {
	if p.wait = w; w != nil {
		p.lastReply.SetPoller(w)
	}
}

// target returns what p waits for.
func (p *retriedRequest) target() dispatch.Target {
	kind, keys := p.lock.registry.config, p.lock.keys
	target := dispatch.Target{
		Channel: keys.Channel, Key: keys.Holder, Poll: kind.Poll, WaiterID: kind.Layout.WaiterID, ChannelTypes: session.ChannelTypesOf(kind.Layout), Silent: kind.Silent,
	}
	if p.request.Concurrent {
		target.Poll = kind.PollShared
	}
	if kind.ChannelPerWaiter {
		target.Channel += p.attempt.holdID
	}
	return target
}

// Ended implements queue.WaitingRequest.
func (p *retriedRequest) Ended(ctx context.Context) error { return p.lastReply.Ended(ctx) }

// Leave implements queue.WaitingRequest.
func (p *retriedRequest) Leave() queue.ServerHold {
	if p.wait != nil {
		p.wait.Close()
	}
	if p.attempt.hasLock() {
		return p.attempt
	}
	p.attempt.Abandon()
	return nil
}
