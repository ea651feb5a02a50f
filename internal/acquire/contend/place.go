// SPDX-License-Identifier: Apache-2.0

package contend

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

// Try implements queue.Asker. It is refused without a round trip while somebody of this session is before the caller.
func (q *contest) Try(ctx context.Context, wish *queue.Wish) (queue.Holder, error) {
	if q.busy(wish) {
		return nil, errs.ErrHeld
	}
	a := q.begin(wish)
	for range 2 { // the second where the server's clock had to be learnt anew
		got, err := a.try(ctx)
		switch {
		case err == nil && got.outcome == late:
			continue
		case err == nil && got.outcome == taken:
			a.began()
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

// began makes a, which was granted, the holder.
func (a *attempt) began() {
	a.queue.contests.mu.Lock()
	defer a.queue.contests.mu.Unlock()
	a.beginLocked()
}

// place is somebody's waiting: an attempt, which tries when it has the turn.
type place struct {
	queue   *contest
	wish    *queue.Wish
	attempt *attempt
	news    chan struct{} // room for one, coalesces: it may have the turn, or the session closes
	last    wire.LastReply
	wait    *dispatch.Wait // while it tries: nil until there is something to wait for; for who waits
	armed   bool           // nothing is to be done before the next wake-up; for who waits
}

// Stand implements queue.Asker.
func (q *contest) Stand(wish *queue.Wish) queue.Waiter {
	p := &place{queue: q, wish: wish, attempt: q.begin(wish), news: make(chan struct{}, 1)}
	p.attempt.waits = true
	q.join(p)
	return p
}

func (p *place) wake() {
	select {
	case p.news <- struct{}{}:
	default: // one is there already
	}
}

// Enter tries once, if it is p's turn, and reports whether the lock was granted. Wait continues.
func (p *place) Enter(ctx context.Context) (isGranted bool, err error) {
	// Close sets closing and then wakes everybody: it finds p in its lane, or p finds it set.
	if err := p.queue.contests.session.Ready(); err != nil {
		return false, err
	}
	if ctx.Err() != nil {
		return false, p.last.Ended(ctx)
	}
	switch {
	case !p.queue.hasTurn(p):
		p.last.Held()
	case !p.waitsForOurs() && !p.standsBack():
		if isGranted, err = p.try(ctx); isGranted || err != nil {
			return isGranted, err
		}
	}
	p.armed = true
	return false, nil
}

// Wait implements queue.Waiter.
func (p *place) Wait(ctx context.Context) error {
	for {
		if !p.armed {
			if isGranted, err := p.Enter(ctx); isGranted || err != nil {
				return err
			}
		}
		if err := p.sleep(ctx); err != nil {
			return err
		}
		p.armed = false
	}
}

// waitsForOurs reports whether this session has the lock alone, and that its release is all that p waits
// for. If other holds can take its place before that, p is registered for the message, before it checks
// whether there is a hold still: so it misses no message.
func (p *place) waitsForOurs() bool {
	kind := p.queue.contests.kind
	if kind.Each || !p.queue.isOurs() {
		return false
	}
	if !kind.WaitsHere {
		if p.wait != nil {
			return false
		}
		p.follow(p.queue.contests.session.Dispatch.WaitIfLive(p.target()))
		if p.wait == nil || !p.queue.isOurs() {
			return false
		}
		p.wait.Held(-1)
	}
	p.last.Held()
	return true
}

// standsBack reports whether p is to try later, and is woken then.
func (p *place) standsBack() bool {
	pause := p.queue.standsBack()
	if pause <= 0 {
		return false
	}
	if p.wait != nil {
		p.wait.After(pause)
	} else {
		p.follow(p.queue.contests.session.Dispatch.StandBack(p.target(), pause))
	}
	return true
}

// try tries once, and schedules the next. It reports whether the lock was granted.
func (p *place) try(ctx context.Context) (done bool, err error) {
	d := p.queue.contests.session.Dispatch
	if p.wait == nil {
		p.follow(d.WaitIfLive(p.target()))
	}
	got, err := p.attempt.try(ctx)
	switch {
	case err == nil && got.outcome == taken:
		return true, nil
	case err == nil && got.outcome == held:
		p.last.Held()
		p.register().Held(got.left)
		return false, nil
	}
	if err = p.last.Take(ctx, err); err != nil {
		return false, err
	}
	p.register().After(session.RetryPause(p.last.Fails))
	p.last.Fails++
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
		p.last.Follow(w)
	}
}

// target returns what p waits for.
func (p *place) target() dispatch.Target {
	kind, keys := p.queue.contests.kind, p.queue.keys
	target := dispatch.Target{
		Channel: keys.Grants, Key: keys.Holder, Look: kind.Look, Mark: kind.Layout.Mark, Ways: session.WaysOf(kind.Layout), Silent: kind.Silent,
	}
	if p.wish.Beside {
		target.Look = kind.LookBeside
	}
	if kind.Each {
		target.Channel += p.attempt.hold
	}
	return target
}

// sleep waits for the turn, or, where p has it, for the next try.
func (p *place) sleep(ctx context.Context) error {
	var due <-chan struct{}
	if p.wait != nil {
		due = p.wait.C
	}
	select {
	case <-due:
	case <-p.news:
	case <-ctx.Done():
		return p.last.Ended(ctx)
	}
	return nil
}

// Ended implements queue.Waiter.
func (p *place) Ended(ctx context.Context) error { return p.last.Ended(ctx) }

// Leave implements queue.Waiter.
func (p *place) Leave() queue.Holder {
	if p.wait != nil {
		p.wait.Close()
	}
	if p.queue.part(p) {
		return p.attempt
	}
	p.attempt.Abandon()
	return nil
}
