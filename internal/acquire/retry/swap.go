// SPDX-License-Identifier: Apache-2.0

package retry

import (
	"context"
	"errors"

	"github.com/signalbox-go/signalbox/internal/acquire/queue"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// Swap implements queue.Hold; see layout.Retry for the script. It is repeated until it has a reply or
// ctx ends. If it fails, the new hold is released in the background, and a is left to the caller, who does
// not know whether a still has the lock.
func (a *attempt) Swap(ctx context.Context, script *scripts.Script, request *queue.Request) (queue.Hold, error) {
	a.Begin(nil)
	b := a.lock.newAttempt(request)
	if err := b.sendSwap(ctx, script, a); err != nil {
		b.Abandon()
		return nil, err
	}
	a.end()
	a.finish(false)
	a.undo(a.footprint.Unknown)
	return b, nil
}

// sendSwap repeats the script until it has replaced old by a.
func (a *attempt) sendSwap(ctx context.Context, script *scripts.Script, old *attempt) error {
	args := append([]string{old.holdID, a.lock.registry.verb(), a.lock.keys.Channel}, a.request.Args...)
	var last wire.LastReply
	for {
		_, err := a.send(ctx, script, args)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, errs.ErrHeld):
			return errs.ErrLostGone
		case errors.Is(err, errLate):
			err = nil
		default:
			err = last.Record(ctx, err)
		}
		if err == nil {
			a.lock.registry.session.BackOff(ctx, last.Failures, nil)
			last.Failures++
			if ctx.Err() != nil {
				err = last.Ended(ctx)
			}
		}
		if err != nil {
			return err
		}
	}
}
