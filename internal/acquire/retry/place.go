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

// Try implements queue.Asker. It fails without a round trip while another call of this session is ahead of
// the caller.
func (q *contest) Try(ctx context.Context, wish *queue.Request) (queue.ServerHold, error) {
	if q.busy(wish) {
		return nil, errs.ErrHeld
	}
	a := q.begin(wish)
	for range 2 { // the second try if the server's clock had to be read anew
		got, err := a.try(ctx)
		switch {
		case err == nil && got.outcome == late:
			continue
		case err == nil && got.outcome == taken:
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

// place is an attempt that waits, and tries repeatedly.
type place struct {
	queue   *contest
	wish    *queue.Request
	attempt *attempt
	last    wire.LastReply
	wait    *dispatch.Wait // nil until there is something to wait for; only the waiter uses it
}

// Stand implements queue.Asker.
func (q *contest) Prepare(wish *queue.Request, _ *queue.QueuedRequest) queue.WaitingRequest {
	p := &place{queue: q, wish: wish, attempt: q.begin(wish)}
	p.attempt.waits = true
	return p
}

// Enter tries once, unless this session stands back, and reports whether the lock was granted. Otherwise Wait continues.
func (p *place) Join(ctx context.Context) (isGranted bool, err error) {
	// Close sets closing, and then wakes all registered waiters, also those that register later: it wakes
	// p, or p finds it set.
	if err := p.queue.contests.session.Ready(); err != nil {
		return false, err
	}
	if ctx.Err() != nil {
		return false, p.last.Ended(ctx)
	}
	if p.standsBack() {
		return false, nil
	}
	return p.try(ctx)
}

// Wait implements queue.Waiter.
func (p *place) Wait(ctx context.Context) error {
	for {
		select {
		case <-p.wait.C:
		case <-ctx.Done():
			return p.last.Ended(ctx)
		}
		if isGranted, err := p.Join(ctx); isGranted || err != nil {
			return err
		}
	}
}

// standsBack reports whether p is to try later, and is woken then.
func (p *place) standsBack() bool {
	pause := p.queue.standsBack()
	if pause <= 0 {
		return false
	}
	if p.wait != nil {
		p.wait.WakeAfter(pause)
	} else {
		p.follow(p.queue.contests.session.Dispatch.BackOff(p.target(), pause))
	}
	return true
}

// try tries once, and schedules the next. It reports whether the lock was granted.
func (p *place) try(ctx context.Context) (done bool, err error) {
	d := p.queue.contests.session.Dispatch
	if p.wait == nil {
		p.follow(d.WaitIfSubscribed(p.target()))
	}
	got, err := p.attempt.try(ctx)
	key, outages := p.queue.keys.Holder, &p.queue.contests.session.Outages
	switch {
	case err == nil && got.outcome == late:
		outages.Late(key, errLate)
	case err == nil:
		outages.InTime(key)
	}
	switch {
	case err == nil && got.outcome == taken:
		return true, nil
	case err == nil && got.outcome == held:
		p.last.RecordHeld()
		p.register().FoundHeld(got.left)
		return false, nil
	}
	if err = p.last.Record(ctx, err); err != nil {
		return false, err
	}
	p.register().WakeAfter(session.BackOffPause(p.last.Failures))
	p.last.Failures++
	return false, nil
}

func (p *place) register() *dispatch.Wait {
	if p.wait == nil {
		p.follow(p.queue.contests.session.Dispatch.Wait(p.target()))
	}
	return p.wait
}

// follow registers p with w, if there is one.
func (p *place) follow(w *dispatch.Wait) {
	if p.wait = w; w != nil {
		p.last.SetPoller(w)
	}
}

// target returns what p waits for.
func (p *place) target() dispatch.Target {
	kind, keys := p.queue.contests.kind, p.queue.keys
	target := dispatch.Target{
		Channel: keys.Channel, Key: keys.Holder, Poll: kind.Poll, WaiterID: kind.Layout.WaiterID, ChannelTypes: session.ChannelTypesOf(kind.Layout), Silent: kind.Silent,
	}
	if p.wish.Shared {
		target.Poll = kind.PollShared
	}
	if kind.ChannelPerWaiter {
		target.Channel += p.attempt.hold
	}
	return target
}

// Ended implements queue.Waiter.
func (p *place) Ended(ctx context.Context) error { return p.last.Ended(ctx) }

// Leave implements queue.Waiter.
func (p *place) Leave() queue.ServerHold {
	if p.wait != nil {
		p.wait.Close()
	}
	if p.attempt.hasLock() {
		return p.attempt
	}
	p.attempt.Abandon()
	return nil
}
