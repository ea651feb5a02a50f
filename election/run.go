// SPDX-License-Identifier: Apache-2.0

package election

import (
	"cmp"
	"context"
	"errors"
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
