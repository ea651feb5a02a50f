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

// result is what a call returns.
type result struct {
	value  []byte
	ran    bool // it ran its function
	failed bool // the error is that of its function
}

// of returns the result of a call that ran no function.
func of(stored string) result { return result{value: []byte(stored)} }

func (o *Once) do(ctx context.Context, fn Func) (result, error) {
	if err := o.root().Ready(ctx); err != nil {
		return result{}, err
	}
	if fn == nil {
		return result{}, acquire.ErrNoFunc
	}
	if o.runsIn(ctx) {
		return result{}, fmt.Errorf("%w: by the function that makes this call", errs.ErrHeld)
	}
	for {
		found, err := o.look(ctx)
		if err != nil {
			return result{}, err
		}
		if found.stored {
			return of(found.value), nil
		}
		r, again, err := o.together(ctx, fn)
		if !again {
			return r, err
		}
	}
}

// together waits with the other calls of the session for an outcome, and leads if it is this call's
// turn. again: the outcome that came may be older than what this call knows.
func (o *Once) together(ctx context.Context, fn Func) (r result, again bool, err error) {
	f, since := o.room.join(o.outcome)
	defer o.room.leave(f)
	leads, err := o.room.wait(ctx, f)
	if err != nil {
		return result{}, false, err
	}
	if !leads {
		return of(f.value), f.ask <= since, nil
	}
	defer f.end()
	r, err = o.lead(ctx, f, fn)
	return r, false, err
}

// lead acquires the lock, or learns that another session stored an outcome. Under the lock it runs
// fn if no outcome is stored.
func (o *Once) lead(ctx context.Context, f *flight, fn Func) (result, error) {
	for {
		lease, err := o.take(ctx)
		if err != nil && !errors.Is(err, errStored) {
			return result{}, err
		}
		ask := o.room.asking(f)
		found, lookErr := o.look(ctx)
		switch {
		case found.stored:
			o.room.land(f, ask, found.value)
			_ = lease.Unlock() // nothing was done under it
			return of(found.value), nil
		case lookErr != nil:
			_ = lease.Unlock()
			return result{}, lookErr
		case lease.Err() == nil:
			return o.run(ctx, f, lease, fn)
		}
		_ = lease.Unlock() // the call has no lease, or lost it meanwhile
	}
}

// errStored ends a wait for the lock: another session says that it stored an outcome.
var errStored = errors.New("an outcome was stored")

// take acquires the lock. It returns errStored if a message says that an outcome was stored. Leases
// that ctx carries do not count: entering one again would let two functions run at the same time.
func (o *Once) take(ctx context.Context) (signalbox.Lease, error) {
	ctx = hold.WithoutLeases(ctx)
	lease, err := o.claim.TryLock(ctx)
	if err == nil || wire.Judge(err) == wire.Final {
		return lease, unwrap(err)
	}
	waiting, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	listener := o.base.Session.Dispatch.Listen(o.stored, dispatch.BySlot, hearer(cancel))
	defer listener.Close()
	lease, err = o.claim.Lock(waiting)
	if err != nil && ctx.Err() == nil && errors.Is(context.Cause(waiting), errStored) {
		err = errStored
	}
	return lease, unwrap(err)
}

// unwrap takes the operation of the lock off its error.
func unwrap(err error) error {
	if op, is := err.(*signalbox.OpError); is { //nolint:errorlint // the outermost one
		return op.Err
	}
	return err
}

// hearer hears that an outcome was stored.
type hearer context.CancelCauseFunc

// Heard implements dispatch.Hearer. The message is a hint: the call asks the server.
func (h hearer) Heard(string) { h(errStored) }

// Subscribed implements dispatch.Hearer. If the message was sent before, the lock is granted soon.
func (hearer) Subscribed() {}

// Lost implements dispatch.Hearer.
func (hearer) Lost() {}

// run runs fn and stores its value. The lease is unlocked also if fn panics or ends its goroutine.
func (o *Once) run(ctx context.Context, f *flight, lease signalbox.Lease, fn Func) (r result, err error) {
	defer func() {
		unlocked := lease.Unlock()
		if r.failed {
			err = errs.Join(err, o.base.Explain("unlock", unlocked))
		}
	}()
	value, err := fn(o.running(lease.Enter(ctx)), lease)
	switch {
	case err != nil:
		return result{ran: true, failed: true}, err
	case len(value) > MaxValue:
		return result{value: value, ran: true}, fmt.Errorf("%w: it has %d bytes, and %d are allowed", errs.ErrTooLarge, len(value), MaxValue)
	}
	other, err := o.store(ctx, f, lease, string(value))
	switch {
	case other.stored:
		value = []byte(other.value)
	case errors.Is(err, errs.ErrStale):
		value = nil
	}
	return result{value: value, ran: true}, err
}

// run is a function that runs, as its context carries it.
type run struct {
	once  *Once
	outer *run // in whose function it runs, or nil
}

type runKey struct{}

// running returns ctx for a function that runs for the key of o.
func (o *Once) running(ctx context.Context) context.Context {
	outer, _ := ctx.Value(runKey{}).(*run)
	return context.WithValue(ctx, runKey{}, &run{o, outer})
}

// runsIn reports whether ctx is that of a function which runs for the key of o.
func (o *Once) runsIn(ctx context.Context) bool {
	r, _ := ctx.Value(runKey{}).(*run)
	for r != nil && (r.once.room != o.room || r.once.outcome != o.outcome) {
		r = r.outer
	}
	return r != nil
}
