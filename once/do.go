// SPDX-License-Identifier: Apache-2.0

package once

import (
	"context"
	"errors"
	"fmt"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/acquire"
	"github.com/signalbox-go/signalbox/internal/dispatch"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
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
	if err := o.root().Ready(ctx); err != nil {
		return callResult{}, err
	}
	if fn == nil {
		return callResult{}, acquire.ErrNoFunc
	}
	if o.runsIn(ctx) {
		return callResult{}, fmt.Errorf("%w: by the function that makes this call", errs.ErrHeld)
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
	lease, r, err := o.acquireClaim(ctx, f)
	if lease == (signalbox.Lease{}) {
		f.endTurn()
		return r, false, err
	}
	r, err = o.execute(ctx, f, lease, fn).wait(ctx)
	return r, false, err
}

// acquireClaim acquires the lock, or learns that another session stored an outcome. It returns a lease if no outcome
// is stored. It returns as soon as ctx ends: a claim that is not used is released in the background.
func (o *Once) acquireClaim(ctx context.Context, f *flight) (signalbox.Lease, callResult, error) {
	for {
		lease, err := o.lockClaim(ctx)
		if err != nil && !errors.Is(err, errStored) {
			return signalbox.Lease{}, callResult{}, err
		}
		request := o.registry.nextRequest(f)
		found, err := o.fetchOutcome(ctx)
		if err == nil && !found.stored && lease.Err() == nil {
			return lease, callResult{}, nil
		}
		o.releaseClaim(lease)
		switch {
		case found.stored:
			o.registry.deliver(f, request, found.value)
			return signalbox.Lease{}, storedResult(found.value), nil
		case err != nil:
			return signalbox.Lease{}, callResult{}, err
		}
		// The call has no lease, or lost it meanwhile.
	}
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

// errStored ends a wait for the lock: another session says that it stored an outcome.
var errStored = errors.New("an outcome was stored")

// lockClaim acquires the lock. It returns errStored if a message says that an outcome was stored. Leases
// that ctx carries do not count: entering one again would let two functions run at the same time.
func (o *Once) lockClaim(ctx context.Context) (signalbox.Lease, error) {
	ctx = hold.WithoutLeases(ctx)
	lease, err := o.claim.TryLock(ctx)
	if err == nil || wire.Judge(err) == wire.Final {
		return lease, acquire.WithoutOp(err)
	}
	waiting, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	listener := o.base.Session.Dispatch.Listen(o.storedChannel, dispatch.ShardedChannel, storedListener(cancel))
	defer listener.Close()
	lease, err = o.claim.Lock(waiting)
	if err != nil && ctx.Err() == nil && errors.Is(context.Cause(waiting), errStored) {
		err = errStored
	}
	return lease, acquire.WithoutOp(err)
}

// storedListener ends the wait for the lock when an outcome was stored. It is the cancel function of that wait.
type storedListener context.CancelCauseFunc

// OnMessage implements dispatch.Handler. The message is a hint: the call asks the server.
func (l storedListener) OnMessage(string) { l(errStored) }

// OnSubscribed implements dispatch.Handler. If the message was sent before, the lock is granted soon.
func (storedListener) OnSubscribed() {}

// OnUnsubscribed implements dispatch.Handler.
func (storedListener) OnUnsubscribed() {}

// activeRun is a function that runs, as its context carries it.
type activeRun struct {
	once  *Once
	outer *activeRun // the run that called this one, or nil
}

type activeRunKey struct{}

// running returns ctx for a function that runs for the key of o.
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
