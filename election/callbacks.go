// SPDX-License-Identifier: Apache-2.0

package election

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/signalbox-go/signalbox/internal/errs"
)

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
