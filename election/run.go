// SPDX-License-Identifier: Apache-2.0

package election

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/signalbox-go/signalbox/internal/acquire"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// Run campaigns, and calls lead for each term, one after the other, until ctx ends or lead returns
// while its term lasts.
//
// The context of lead ends when ctx ends, and when the term ends: StepDown before the lease can end
// on the server. lead must return then. The term is resigned when lead has returned, and not before,
// also if lead panics. So no other process leads while lead works, unless lead takes longer than
// StepDown to return after the server was lost.
//
// After a term that was lost Run campaigns again, at the end of the queue, whatever lead returned. It
// pauses before that, from some milliseconds to a second, longer for terms that are lost one after
// the other.
//
// So it does after ErrHandover: the next candidate leads when lead has returned.
//
// If lead returns while its term lasts, Run resigns and returns lead's error, joined with that of
// Resign. If ctx ends, Run returns the context's error, joined with lead's. Otherwise the error is one
// that Campaign returns. It campaigns again after ErrNotReplicated, and after an ErrDenied if it has led before.
func (e *Election) Run(ctx context.Context, lead func(ctx context.Context, term Term) error) error {
	return e.root().Explain("run", e.run(ctx, lead))
}

func (e *Election) run(ctx context.Context, lead func(context.Context, Term) error) error {
	if err := e.root().Ready(ctx); err != nil || lead == nil {
		return cmp.Or(err, acquire.ErrNoFunc)
	}
	led := false
	for fails := 0; ; fails++ {
		began := time.Now()
		again, err := e.leadOnce(ctx, lead, &led)
		if !again {
			return err
		}
		if time.Since(began) > e.base.Terms.Lease {
			fails = 0
		}
		e.pause(ctx, fails)
	}
}

// pause waits before a further try, longer after more that failed. After the end of the registry's context no timer fires.
func (e *Election) pause(ctx context.Context, fails int) {
	e.base.Session.BackOff(ctx, fails, e.registry.Context().Done())
}

// leadOnce campaigns and leads for one term. It reports whether to campaign again: also if a right is missing that an earlier
// term had. led says that there was one.
func (e *Election) leadOnce(ctx context.Context, lead func(context.Context, Term) error, led *bool) (again bool, err error) {
	t, err := e.campaign(ctx)
	if err != nil {
		again = errors.Is(err, errs.ErrNotReplicated) || wire.Judge(err) != wire.Final || *led && errors.Is(err, errs.ErrDenied)
	} else {
		*led = true
		again, err = t.lead(ctx, lead)
	}
	if ctx.Err() == nil {
		return again, err
	}
	if !errors.Is(err, ctx.Err()) && !errors.Is(err, context.Cause(ctx)) {
		err = errs.Join(errs.Ended(ctx), err)
	}
	return false, err
}

// lead calls lead, and resigns when it has returned, panicked, or ended its goroutine. It reports
// whether the term was lost before.
func (t *term) lead(ctx context.Context, lead func(context.Context, Term) error) (lost bool, err error) {
	defer func() { //nolint:contextcheck // a term is resigned also if ctx has ended
		ended := t.err()
		lost = ended != nil && !errors.Is(ended, errs.ErrReleased) // else lead resigned itself
		resigned := t.resign()
		if lost || errors.Is(resigned, errs.ErrNotHeld) {
			resigned = nil // it says nothing new
		}
		err = errs.Join(err, resigned)
	}()
	return false, lead(t.bind(ctx), Term{t})
}

// Callbacks are the three callbacks of Kubernetes' leader election, for code that was written for
// those. RunCallbacks calls them.
type Callbacks struct {
	// OnStartedLeading is called when a term begins. Its context ends when the term ends. It may
	// return before that: the process leads until the term ends.
	OnStartedLeading func(ctx context.Context)
	// OnStoppedLeading is called when the term has ended and OnStartedLeading has returned, before
	// the lease is released. It is not called if no term began.
	OnStoppedLeading func()
	// OnNewLeader is called each time another session begins to lead, this one included, with its label
	// (signalbox.WithLabel), or its ID if the label is empty. Its ID decides whether it is another: if two
	// sessions have one label, OnNewLeader is called with that label twice. Use Leading to ask whether this
	// process leads. OnNewLeader may be nil. It runs beside the other two, and is called for one leader after
	// the other.
	OnNewLeader func(identity string)
}

// RunCallbacks is Run with callbacks. It returns when ctx ends and all callbacks have returned, or if
// waiting cannot help.
func (e *Election) RunCallbacks(ctx context.Context, c Callbacks) error {
	return e.root().Explain("run", e.runCallbacks(ctx, c))
}

func (e *Election) runCallbacks(ctx context.Context, c Callbacks) error {
	if err := e.root().Ready(ctx); err != nil || c.OnStartedLeading == nil || c.OnStoppedLeading == nil {
		return cmp.Or(err, fmt.Errorf("%w: OnStartedLeading and OnStoppedLeading must be set", errs.ErrBadOption))
	}
	ended := make(chan struct{})
	watching, stop := context.WithCancel(ctx)
	go func() {
		defer close(ended)
		if c.OnNewLeader != nil {
			e.report(watching, c.OnNewLeader)
		}
	}()
	defer func() {
		stop()
		<-ended
	}()
	return e.run(ctx, func(ctx context.Context, _ Term) error {
		defer c.OnStoppedLeading()
		c.OnStartedLeading(ctx)
		<-ctx.Done()
		return nil
	})
}

// report calls onNewLeader for each leader until ctx or the session ends. A sequence that ends before that, as for want of a
// right, is begun anew: the candidate may still lead.
func (e *Election) report(ctx context.Context, onNewLeader func(identity string)) {
	last := "" // the ID of a session: labels may be equal
	for fails := 0; ctx.Err() == nil && e.registry.Context().Err() == nil; fails++ {
		for l, err := range e.Observe(ctx) {
			switch {
			case errors.Is(err, errs.ErrClosed):
				return
			case err == nil:
				fails = 0
			}
			if err == nil && l.Session != "" && l.Session != last {
				last = l.Session
				onNewLeader(cmp.Or(l.Label, l.Session))
			}
		}
		e.pause(ctx, fails)
	}
}
