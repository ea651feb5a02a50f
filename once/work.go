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

// work is a function that runs for all calls of a flight. It belongs to none of them: it has a goroutine and
// a context of its own, and the call that began it waits for it like any caller.
//
// The goroutine ends when the function has returned, its value is stored, and the claim is released. The
// session counts it as a call (Beside), so Close waits for it. Its context ends with the lease, which Close
// ends after its grace; when no call has waited for as long as Linger says; and at once if no call waits
// while the session closes. The room ends it in the last two cases.
type execution struct {
	once     *Once
	flight   *flight
	lease    signalbox.Lease
	cancel   context.CancelCauseFunc // of the function's context
	finished chan struct{}           // closed when the claim was released, and the turn is over

	mu struct {
		sync.Mutex
		known  bool // how the function ended, and what became of its value
		gone   bool // the call that began it has left before that was known
		result callResult
		err    error
		cause  any   // the value with which the function panicked, or nil
		exited bool  // the function ended its goroutine
		last   error // why the value is not stored yet, or nil
	}
}

// begin runs fn on a goroutine of its own, under a lease that was just acquired. The call keeps its turn,
// and the work ends it.
func (o *Once) execute(ctx context.Context, f *flight, lease signalbox.Lease, fn Func) *execution {
	w := &execution{once: o, flight: f, lease: lease, finished: make(chan struct{})}
	// The values of the call's context are for the function, such as a trace. Its end and its leases are the
	// call's own: it may leave and unlock them while the function runs.
	ctx, w.cancel = context.WithCancelCause(hold.WithoutLeases(context.WithoutCancel(ctx)))
	o.base.Session.BeginDetached() // the hold is counted in until here, so Close cannot have seen the session idle
	o.registry.setExecution(f, w)
	go w.run(ctx, fn)
	return w
}

// do calls the function, stores its value, and releases the claim, also if the function panics or ends the
// goroutine.
func (w *execution) run(ctx context.Context, fn Func) {
	defer w.finish()
	defer w.recordEnd(ctx)
	value, err := fn(w.once.running(w.lease.Enter(ctx)), w.lease)
	r := callResult{ran: true}
	if err != nil {
		r.failed = true
	} else {
		r.value, err = w.store(context.WithoutCancel(ctx), value)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.known, w.mu.result, w.mu.err = true, r, err
}

// store stores the value of the function. It returns what the call that began the function returns.
func (w *execution) store(ctx context.Context, value []byte) ([]byte, error) {
	if len(value) > MaxValue {
		return value, fmt.Errorf("%w: it has %d bytes, and %d are allowed", errs.ErrTooLarge, len(value), MaxValue)
	}
	other, err := w.once.store(ctx, w, string(value))
	switch {
	case other.stored:
		return []byte(other.value), err
	case errors.Is(err, errs.ErrStale):
		return nil, err
	}
	return value, err
}

// troubled remembers why the value is not stored yet, for a call that leaves.
func (w *execution) storeFailed(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.last = err
}

// settle is deferred: it notices a function that panicked or ended its goroutine, and logs what no call
// returns. ctx is the function's: that Close ended it is no news, nor that its call left if Linger is 0.
func (w *execution) recordEnd(ctx context.Context) {
	cause := recover()
	var stack []byte
	if cause != nil {
		stack = debug.Stack()
	}
	w.mu.Lock()
	if !w.mu.known { // or the panic is not the function's
		w.mu.known, w.mu.cause, w.mu.exited = true, cause, cause == nil
		w.mu.result = callResult{ran: true, failed: true}
	}
	gone, err := w.mu.gone, w.mu.err
	w.mu.Unlock()
	switch base := &w.once.base; {
	case cause != nil: // the stack of the call that gets the panic is another
		base.LogPanic(cause, stack)
	case !gone || err == nil || errors.Is(context.Cause(ctx), errs.ErrClosed):
	case base.Linger == 0 && errors.Is(context.Cause(ctx), errNoCaller):
	default:
		base.LogFailed(err)
	}
}

// end releases the claim and ends the turn: the next call leads if no outcome was handed over.
func (w *execution) finish() {
	unlocked := w.lease.Unlock()
	w.mu.Lock()
	if w.mu.result.failed && w.mu.err != nil {
		w.mu.err = errs.Join(w.mu.err, w.once.base.Explain("unlock", unlocked))
	}
	w.mu.Unlock()
	w.cancel(nil)
	w.once.registry.executionEnded(w.flight)
	w.flight.endTurn()
	close(w.finished)
	w.once.base.Session.End()
}

// wait returns what the call that began the function returns. A panic of the function continues here, and so
// does the end of its goroutine. If ctx ends before the result is known, wait returns at once.
func (w *execution) wait(ctx context.Context) (callResult, error) {
	select {
	case <-w.finished:
	case <-ctx.Done():
	}
	w.mu.Lock()
	if !w.mu.known {
		w.mu.gone = true
	}
	gone, r, err, cause, exited, last := w.mu.gone, w.mu.result, w.mu.err, w.mu.cause, w.mu.exited, w.mu.last
	w.mu.Unlock()
	switch {
	case gone:
		return callResult{ran: true}, errs.Join(errs.Ended(ctx), last)
	case cause != nil:
		panic(cause) //nolint:forbidigo // the panic of the caller's function continues in the caller
	case exited:
		runtime.Goexit()
	}
	return r, err
}
