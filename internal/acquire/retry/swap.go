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
	b := a.queue.begin(wish)
	if err := b.replace(ctx, script, a); err != nil {
		b.Abandon()
		return nil, err
	}
	a.end()
	a.vacate(false)
	if a.copyLeft(0) > 0 {
		a.releaseUntil(clock.Now().Add(session.MaxPatience + a.wish.Life))
	} else {
		a.forget()
	}
	return b, nil
}

// replace repeats the script until it has replaced old by a.
func (a *attempt) replace(ctx context.Context, script *scripts.Script, old *attempt) error {
	args := append([]string{old.hold, a.queue.contests.verb(), a.queue.keys.Channel}, a.wish.Args...)
	var t wire.LastReply
	for {
		got, err := a.send(ctx, script, args)
		switch {
		case err != nil:
			err = t.Record(ctx, err)
		case got.outcome == taken:
			return nil
		case got.outcome == held:
			return errs.ErrLostGone
		}
		if err == nil {
			a.queue.contests.session.BackOff(ctx, t.Failures, nil)
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
