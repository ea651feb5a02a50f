// SPDX-License-Identifier: Apache-2.0

package retry

import (
	"context"

	"github.com/signalbox-go/signalbox/internal/acquire/queue"
	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// Swap implements queue.Holder; see layout.Contest for the script. It is repeated until it has a reply or
// ctx ends. If it fails, the new hold is released in the background, and a is left to the caller, who does
// not know whether a still has the lock.
func (a *attempt) Swap(ctx context.Context, script *scripts.Script, wish *queue.Request) (queue.ServerHold, error) {
	a.Begin(nil)
	b := a.lock.newAttempt(wish)
	if err := b.sendSwap(ctx, script, a); err != nil {
		b.Abandon()
		return nil, err
	}
	a.end()
	a.finish(false)
	if a.copyExecutableFor(0) > 0 {
		a.repeatReleaseUntil(clock.Now().Add(session.MaxPatience + a.request.Life))
	} else {
		a.forget()
	}
	return b, nil
}

// replace repeats the script until it has replaced old by a.
func (a *attempt) sendSwap(ctx context.Context, script *scripts.Script, old *attempt) error {
	args := append([]string{old.holdID, a.lock.registry.verb(), a.lock.keys.Channel}, a.request.Args...)
	var t wire.LastReply
	for {
		got, err := a.send(ctx, script, args)
		switch {
		case err != nil:
			err = t.Record(ctx, err)
		case got.outcome == tryGranted:
			return nil
		case got.outcome == tryHeld:
			return errs.ErrLostGone
		}
		if err == nil {
			a.lock.registry.session.BackOff(ctx, t.Failures, nil)
			t.Failures++
			if ctx.Err() != nil {
				err = t.Ended(ctx)
			}
		}
		if err != nil {
			return err
		}
	}
}
