// SPDX-License-Identifier: Apache-2.0

package once

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
)

// errNoCaller is the cause with which the context of a function ends that no call has waited for as long as
// Linger says.
var errNoCaller = errors.New("signalbox: no call waits for this function any more")

// execution is a function that runs for all calls of a flight. It belongs to none of them: it has a goroutine and
// a context of its own, and the call that began it waits for it like any caller.
//
// The goroutine ends when the function has returned, its value is stored, and the claim is released. The
// session counts it as a call (BeginDetached), so Close waits for it. Its context ends with the lease, which Close
// ends after its grace; when no call has waited for as long as Linger says; and at once if no call waits
// while the session closes. The registry ends it in the last two cases.
type execution struct {
	once     *Once
	flight   *flight
	lease    signalbox.Lease
	cancel   context.CancelCauseFunc // ends the function's context
	finished chan struct{}           // closed when the claim was released, and the turn is over

	mu struct {
		sync.Mutex
		known  bool // the end of the function, and whether its value is stored, are known
		left   bool // the call that began it has left before that was known
		result callResult
		err    error
		cause  any   // the value with which the function panicked, or nil
		exited bool  // the function ended its goroutine
		last   error // why the value is not stored yet, or nil
	}
}

// execute runs fn on a goroutine of its own, under a lease that was just acquired. The call keeps its turn,
// and the execution ends it.
func (o *Once) execute(ctx context.Context, f *flight, lease signalbox.Lease, fn Func) *execution {
	e := &execution{once: o, flight: f, lease: lease, finished: make(chan struct{})}
	// The values of the call's context are for the function, such as a trace. Its end and its leases are the
	// call's own: it may leave and unlock them while the function runs.
	ctx, e.cancel = context.WithCancelCause(hold.WithoutLeases(context.WithoutCancel(ctx)))
	o.base.Session.BeginDetached() // the hold is counted in until here, so Close cannot have seen the session idle
	o.registry.mu.Lock()
	f.execution = e // the leader, which calls this, is a call of f
	o.registry.mu.Unlock()
	go e.run(ctx, fn)
	return e
}

// run calls the function, stores its value, and releases the claim, also if the function panics or ends the
// goroutine.
func (e *execution) run(ctx context.Context, fn Func) {
	defer e.finish()
	defer e.recordEnd(ctx)
	value, err := fn(e.once.running(e.lease.Enter(ctx)), e.lease)
	r := callResult{ran: true}
	if err != nil {
		r.failed = true
	} else {
		r.value, err = e.store(context.WithoutCancel(ctx), value)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mu.known, e.mu.result, e.mu.err = true, r, err
}

// store stores the value of the function. It returns what the call that began the function returns.
func (e *execution) store(ctx context.Context, value []byte) ([]byte, error) {
	if len(value) > MaxValue {
		return value, fmt.Errorf("%w: it has %d bytes, and %d are allowed", errs.ErrTooLarge, len(value), MaxValue)
	}
	other, err := e.once.store(ctx, e, string(value))
	switch {
	case other.stored:
		return []byte(other.value), err
	case errors.Is(err, errs.ErrStale):
		return nil, err
	}
	return value, err
}

// storeFailed remembers why the value is not stored yet, for a call that leaves.
func (e *execution) storeFailed(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mu.last = err
}

// recordEnd is deferred: it notices a function that panicked or ended its goroutine, and logs what no call
// returns. ctx is the function's: it is not logged that Close ended it, nor that its call left if Linger is 0.
func (e *execution) recordEnd(ctx context.Context) {
	cause := recover()
	var stack []byte
	if cause != nil {
		stack = debug.Stack()
	}
	e.mu.Lock()
	if !e.mu.known { // or the panic is not the function's
		e.mu.known, e.mu.cause, e.mu.exited = true, cause, cause == nil
		e.mu.result = callResult{ran: true, failed: true}
	}
	left, err := e.mu.left, e.mu.err
	e.mu.Unlock()
	switch base := &e.once.base; {
	case cause != nil: // the stack of the call that gets the panic is another
		base.Session.Logs.Panicked(base.Labels(), cause, stack)
	case !left || err == nil || errors.Is(context.Cause(ctx), errs.ErrClosed):
	case base.Linger == 0 && errors.Is(context.Cause(ctx), errNoCaller):
	default:
		base.LogFailed(err)
	}
}

// finish releases the claim and ends the turn: the next call leads if no outcome was handed over.
func (e *execution) finish() {
	unlocked := e.lease.Unlock()
	e.mu.Lock()
	if e.mu.result.failed && e.mu.err != nil {
		e.mu.err = errs.Join(e.mu.err, e.once.base.Explain("unlock", unlocked))
	}
	e.mu.Unlock()
	e.cancel(nil)
	e.once.registry.executionEnded(e.flight)
	e.flight.endTurn()
	close(e.finished)
	e.once.base.Session.End()
}

// wait returns what the call that began the function returns. A panic of the function continues here, and so
// does the end of its goroutine. If ctx ends before the result is known, wait returns at once.
func (e *execution) wait(ctx context.Context) (callResult, error) {
	select {
	case <-e.finished:
	case <-ctx.Done():
	}
	e.mu.Lock()
	if !e.mu.known {
		e.mu.left = true
	}
	left, r, err, cause, exited, last := e.mu.left, e.mu.result, e.mu.err, e.mu.cause, e.mu.exited, e.mu.last
	e.mu.Unlock()
	switch {
	case left:
		return callResult{ran: true}, errs.Join(errs.Ended(ctx), last)
	case cause != nil:
		panic(cause) //nolint:forbidigo // the panic of the caller's function continues in the caller
	case exited:
		runtime.Goexit()
	}
	return r, err
}
