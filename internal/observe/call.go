// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/timers"
)

// Where a lock came from.
const (
	FromServer  = "server"  // its first reply granted it
	FromQueue   = "queue"   // granted after a wait at the server
	FromProcess = "process" // handed over inside the process, or shared with a reader of it
)

// Call is one call that acquires a lock, and then the lease that it got. A nil Call is one without an observer. Its
// methods are called one after the other: Begin, Acquired or Refused, and Unlocked or Ended.
type Call struct {
	observer *Observer
	ctx      context.Context //nolint:containedctx // the context for the hooks of the only observer
	contexts []hookContext   // the contexts for the hooks of each observer; nil if there is one
	event    Event
	since    time.Duration // monotonic: when the wait or the hold began
}

// hookContext is the context that an observer returned last.
type hookContext struct {
	ctx context.Context //nolint:containedctx // for the hooks of the observer
}

// errHookExited is the reason why a call failed whose hook ended its goroutine.
var errHookExited = errors.New("a hook of an observer ended the goroutine of the call (runtime.Goexit)")

type quietKey struct{}

// Quiet returns ctx for calls that are parts of a greater call, which reports them as one.
func Quiet(ctx context.Context) context.Context { return context.WithValue(ctx, quietKey{}, true) }

// Begin reports that a call begins to wait, and returns it; nil if it is a part of a greater call.
func (o *Observer) Begin(ctx context.Context, l Labels, shared bool) *Call {
	if ctx.Value(quietKey{}) != nil {
		return nil
	}
	c := &Call{observer: o, ctx: ctx, event: event(l), since: timers.Mono()}
	c.event.Shared = shared
	if n := len(o.hooks); n > 1 {
		c.contexts = slices.Repeat([]hookContext{{ctx}}, n)
	}
	returned := false
	defer func() {
		if !returned {
			c.Refused(errHookExited) // the others wait for that
		}
	}()
	c.start(func(g *Hooks) Starter { return g.Waiting })
	returned = true
	return c
}

// start calls a Starter of each observer, and keeps the contexts.
func (c *Call) start(hookOf func(*Hooks) Starter) {
	o, e := c.observer, c.event
	if c.contexts == nil { // without a function on the heap
		c.ctx = o.start(0, hookOf(&o.hooks[0]), c.ctx, e)
		return
	}
	contexts := c.contexts
	o.each(func(i int) { contexts[i].ctx = o.start(i, hookOf(&o.hooks[i]), contexts[i].ctx, e) }) //nolint:fatcontext // one for each call
}

func (c *Call) call(hookOf func(*Hooks) Hook, e Event) {
	o := c.observer
	if c.contexts == nil {
		o.call(0, hookOf(&o.hooks[0]), c.ctx, e)
		return
	}
	contexts := c.contexts
	o.each(func(i int) { o.call(i, hookOf(&o.hooks[i]), contexts[i].ctx, e) })
}

// Refused reports that the call failed with err.
func (c *Call) Refused(err error) {
	c.event.Waited = timers.Mono() - c.since
	c.event.Outcome, c.event.Err = outcome(err), err
	c.call(func(g *Hooks) Hook { return g.Refused }, c.event)
}

// Acquired reports that the call acquired the lock.
func (c *Call) Acquired(token uint64, source string) {
	now := timers.Mono()
	c.event.Token, c.event.Source, c.event.Waited = token, source, now-c.since
	c.since = now
	c.start(func(g *Hooks) Starter { return g.Acquired })
}

// Unlocked reports that the lease was unlocked, with the error of that. It is called with no Call, too.
func (c *Call) Unlocked(err error) {
	if c != nil {
		c.unlocked(err)
	}
}

func (c *Call) unlocked(err error) {
	isUnconfirmed := errors.Is(err, errs.ErrUnconfirmed)
	if err != nil && !isUnconfirmed {
		c.Ended(err, true, 0)
		return
	}
	e := c.ended()
	defer c.call(func(g *Hooks) Hook { return g.Released }, e) // deferred: also if a hook ends the goroutine
	if isUnconfirmed {
		e.Outcome, e.Err = outcome(err), err
		c.call(func(g *Hooks) Hook { return g.Unconfirmed }, e)
	}
}

// Ended reports that the lease ended under its holder, because of cause. gone says that the hold did not exist at the server any
// more; left is how much longer its key could live.
func (c *Call) Ended(cause error, gone bool, left time.Duration) {
	e := c.ended()
	e.Err, e.Left, e.Outcome = cause, left, "expired"
	switch {
	case errors.Is(cause, errs.ErrClosed):
		e.Outcome = "closed"
	case errors.Is(cause, errs.ErrMaxHold):
		e.Outcome = "max_hold"
	case gone:
		e.Outcome = "gone"
	}
	c.call(func(g *Hooks) Hook { return g.Lost }, e)
}

// ExpectEnd counts a loss that a goroutine of its own reports later, by EndedLater: Await waits for it.
func (c *Call) ExpectEnd() { c.observer.pending.add() }

// EndedLater is Ended for a loss that ExpectEnd counted.
func (c *Call) EndedLater(cause error, gone bool, left time.Duration) {
	defer c.observer.pending.done()
	c.Ended(cause, gone, left)
}

func (c *Call) ended() Event {
	e := c.event
	e.Held = timers.Mono() - c.since
	return e
}

// outcomes are the errors of calls, the most telling first.
//
//nolint:gochecknoglobals // a constant table
var outcomes = []struct {
	err  error
	name string
}{
	{errs.ErrClosed, "closed"},
	{errs.ErrBusy, "busy"},
	{errs.ErrDenied, "denied"},
	{errs.ErrRefused, "refused"},
	{errs.ErrNoReply, "no_reply"},
	{errs.ErrUnconfirmed, "unconfirmed"},
	{errs.ErrNotReplicated, "not_replicated"},
	{errs.ErrWrongKind, "wrong_kind"},
	{errs.ErrCapacity, "capacity"},
	{context.Canceled, "canceled"},
}

// outcome returns the class of an error: one of a few words.
func outcome(err error) string {
	for _, o := range outcomes {
		if errors.Is(err, o.err) {
			return o.name
		}
	}
	held, timedOut := errors.Is(err, errs.ErrHeld), errors.Is(err, context.DeadlineExceeded)
	switch {
	case held && timedOut:
		return "timeout"
	case held:
		return "held"
	case timedOut:
		return "no_reply" // no server said that the lock was held
	}
	return "error"
}
