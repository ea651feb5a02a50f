// SPDX-License-Identifier: Apache-2.0

package once

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/acquire"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/notify"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// callResult is what a call returns.
type callResult struct {
	value  []byte
	ran    bool // the call ran its function
	failed bool // the error is that of its function
}

// storedResult returns the result of a call that ran no function.
func storedResult(stored string) callResult { return callResult{value: []byte(stored)} }

func (o *Once) do(ctx context.Context, fn Func) (callResult, error) {
	if err := o.mayRun(ctx, fn); err != nil {
		return callResult{}, err
	}
	for {
		found, err := o.fetchOutcome(ctx)
		if err != nil {
			return callResult{}, err
		}
		if found.stored {
			return storedResult(found.value), nil
		}
		r, again, err := o.joinFlight(ctx, fn)
		if !again {
			return r, err
		}
	}
}

// mayRun returns why a call with these arguments can run no function.
func (o *Once) mayRun(ctx context.Context, fn Func) error {
	switch err := o.root().Ready(ctx); {
	case err != nil:
		return err
	case fn == nil:
		return acquire.ErrNoFunc
	case o.runsIn(ctx):
		return fmt.Errorf("%w: by the function that makes this call", errs.ErrHeld)
	}
	return nil
}

// tryDo is do without a wait for another call, or for a server that is away. The call that has the turn or the claim may only be about
// to find a stored outcome. So the outcome is read once more.
func (o *Once) tryDo(ctx context.Context, fn Func) (callResult, error) {
	if err := o.mayRun(ctx, fn); err != nil {
		return callResult{}, err
	}
	if r, isStored, err := o.tryRead(ctx); err != nil || isStored {
		return r, err
	}
	for {
		r, again, err := o.tryFlight(ctx, fn)
		if !again {
			return r, err
		}
	}
}

// tryFlight leads if no other call of the session does. again is as that of joinFlight.
func (o *Once) tryFlight(ctx context.Context, fn Func) (r callResult, again bool, err error) {
	f, since := o.registry.join(o.outcomeKey)
	defer o.registry.leave(f)
	held := errs.ErrHeld
	switch leads, isDone := f.tryTurn(); {
	case isDone:
		return storedResult(f.value), f.request <= since, nil
	case leads:
		e, r, err := o.claimAndExecute(ctx, f, fn, o.tryClaim)
		if e != nil {
			r, err = e.wait(ctx)
			return r, false, err
		}
		if !errors.Is(err, errs.ErrHeld) {
			return r, false, err
		}
		held = err
	}
	r, isStored, err := o.tryRead(ctx)
	if err == nil && !isStored {
		err = held
	}
	return r, false, err
}

func (o *Once) tryRead(ctx context.Context) (r callResult, isStored bool, err error) {
	found, err := o.readOutcome(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		return callResult{}, false, errs.Ended(ctx)
	case err != nil || !found.stored:
		return callResult{}, false, err
	}
	return storedResult(found.value), true, nil
}

// tryClaim is acquireClaim without a wait: the error is errs.ErrHeld if another call has the claim.
func (o *Once) tryClaim(ctx context.Context, _ *flight) (signalbox.Lease, callResult, error) {
	lease, err := o.claim.TryLock(hold.WithoutLeases(ctx))
	if err != nil {
		return signalbox.Lease{}, callResult{}, acquire.WithoutOp(err)
	}
	r, isStored, err := o.tryRead(ctx)
	if err == nil && !isStored {
		err = acquire.WithoutOp(lease.Err()) // lost meanwhile: another call may have run its function
	}
	if err != nil || isStored {
		o.releaseClaim(lease)
		return signalbox.Lease{}, r, err
	}
	return lease, callResult{}, nil
}

// joinFlight waits with the other calls of the session for an outcome, and leads if it is this call's
// turn. again: the outcome that came may be older than what this call knows.
func (o *Once) joinFlight(ctx context.Context, fn Func) (r callResult, again bool, err error) {
	f, since := o.registry.join(o.outcomeKey)
	defer o.registry.leave(f)
	leads, err := o.registry.wait(ctx, f)
	if err != nil {
		return callResult{}, false, err
	}
	if !leads {
		return storedResult(f.value), f.request <= since, nil
	}
	e, r, err := o.claimAndExecute(ctx, f, fn, o.acquireClaim)
	if e == nil {
		return r, false, err
	}
	r, err = e.wait(ctx)
	return r, false, err
}

// claimFunc acquires the claim, or learns the outcome that another session stored. It returns a lease if no outcome is stored.
type claimFunc func(ctx context.Context, f *flight) (signalbox.Lease, callResult, error)

// claimAndExecute acquires the claim and runs fn, which ends the turn of the caller. Without an execution the turn has ended: also if
// a hook of an observer ends the goroutine.
func (o *Once) claimAndExecute(ctx context.Context, f *flight, fn Func, claim claimFunc) (e *execution, r callResult, err error) {
	defer func() {
		if e == nil {
			f.endTurn()
		}
	}()
	lease, r, err := claim(ctx, f)
	if lease == (signalbox.Lease{}) {
		return nil, r, err
	}
	return o.execute(ctx, f, lease, fn), r, err
}

// acquireClaim acquires the lock, or learns that another session stored an outcome. It returns a lease if no outcome
// is stored. It returns as soon as ctx ends: a claim that is not used is released in the background.
func (o *Once) acquireClaim(ctx context.Context, f *flight) (signalbox.Lease, callResult, error) {
	for {
		lease, found, err := o.lockClaim(ctx, f)
		if err != nil {
			return signalbox.Lease{}, callResult{}, err
		}
		if !found.stored {
			found, err = o.fetchFor(ctx, f)
		}
		if err == nil && !found.stored && lease.Err() == nil {
			return lease, callResult{}, nil
		}
		o.releaseClaim(lease)
		switch {
		case found.stored:
			o.registry.deliver(f, found.request, found.value)
			return signalbox.Lease{}, storedResult(found.value), nil
		case err != nil:
			return signalbox.Lease{}, callResult{}, err
		}
		// The call has no lease, or lost it meanwhile.
	}
}

func (o *Once) fetchFor(ctx context.Context, f *flight) (storedOutcome, error) {
	request := o.registry.nextRequest(f)
	found, err := o.fetchOutcome(ctx)
	found.request = request
	return found, err
}

// releaseClaim releases a claim under which nothing was done. The session counts the goroutine as a call, so Close waits
// for it.
func (o *Once) releaseClaim(lease signalbox.Lease) {
	if lease.Err() != nil {
		return // no lease was acquired, or it was lost
	}
	o.base.Session.BeginDetached()
	go func() {
		defer o.base.Session.End()
		_ = lease.Unlock()
	}()
}

// errStored ends a wait for the lock: another session stored an outcome, or the server refuses to say so.
var errStored = errors.New("an outcome was stored")

// lockClaim acquires the lock. It returns no lease if a message said that an outcome was stored, and that outcome if it is. Leases
// that ctx carries do not count: entering one again would let two functions run at the same time.
func (o *Once) lockClaim(ctx context.Context, f *flight) (lease signalbox.Lease, found storedOutcome, err error) {
	ctx = hold.WithoutLeases(ctx)
	lease, err = o.claim.TryLock(ctx)
	if err == nil || wire.Judge(err) == wire.Final {
		return lease, storedOutcome{}, acquire.WithoutOp(err)
	}
	waiting, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stored := &storedListener{once: o, flight: f, waiting: waiting, cancel: cancel}
	listener := o.base.Session.Dispatch.Listen(o.storedChannel, notify.ShardedChannel, stored)
	lease, err = o.claim.Lock(waiting)
	listener.Close()
	if err != nil && ctx.Err() == nil && errors.Is(context.Cause(waiting), errStored) {
		err = nil
	}
	cancel(nil)
	return lease, stored.end(), acquire.WithoutOp(err)
}

// storedListener ends the wait for the lock when an outcome was stored. A message is a hint, and may be about another database of the
// server, since all of them share channels. So the server is asked, while the call stays in the queue for the lock.
//
// One goroutine at a time asks, and only after a message. It ends with the wait, and end waits for it.
type storedListener struct {
	once     *Once
	flight   *flight
	waiting  context.Context //nolint:containedctx // the context of the wait
	cancel   context.CancelCauseFunc
	fetching sync.WaitGroup
	found    storedOutcome // written by the goroutine that asks; read by end

	mu struct {
		sync.Mutex
		fetches, again, over bool // a goroutine fetches; it is to do so once more; it is not to begin
	}
}

// OnMessage implements notify.Handler.
func (l *storedListener) OnMessage(string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.again = l.mu.fetches; !l.mu.fetches && !l.mu.over {
		l.mu.fetches = true
		l.fetching.Go(l.fetch)
	}
}

// OnSubscribed implements notify.Handler. If the message was sent before, the lock is granted soon.
func (*storedListener) OnSubscribed() {}

// OnUnsubscribed implements notify.Handler.
func (*storedListener) OnUnsubscribed() {}

// fetch asks for the outcome, and once more for a message that came meanwhile. It ends the wait if there is an outcome, or an error,
// which the call finds by itself.
func (l *storedListener) fetch() {
	for more := true; more; more = l.takeHint() {
		if found, err := l.once.fetchFor(l.waiting, l.flight); err != nil || found.stored {
			l.found = found
			l.cancel(errStored)
			return // fetches stays set
		}
	}
}

// takeHint reports whether a message came while the goroutine asked. If none did, the next one begins another goroutine.
func (l *storedListener) takeHint() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.fetches, l.mu.again = l.mu.again, false
	return l.mu.fetches
}

// end returns the outcome that was found, after the wait has ended.
func (l *storedListener) end() storedOutcome {
	l.mu.Lock()
	l.mu.over = true
	l.mu.Unlock()
	l.fetching.Wait()
	return l.found
}

// activeRun is a function that runs, as its context carries it.
type activeRun struct {
	once  *Once
	outer *activeRun // the run that called this one, or nil
}

type activeRunKey struct{}

func (o *Once) running(ctx context.Context) context.Context {
	outer, _ := ctx.Value(activeRunKey{}).(*activeRun)
	return context.WithValue(ctx, activeRunKey{}, &activeRun{o, outer})
}

// runsIn reports whether ctx is that of a function which runs for the key of o.
func (o *Once) runsIn(ctx context.Context) bool {
	r, _ := ctx.Value(activeRunKey{}).(*activeRun)
	for r != nil && (r.once.registry != o.registry || r.once.outcomeKey != o.outcomeKey) {
		r = r.outer
	}
	return r != nil
}
