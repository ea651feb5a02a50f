// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// Swap replaces a, which has the lock, by an attempt with that request, using script, and repeats the call until
// it has a reply or ctx ends. The arguments of script are the new ticket, its life, its not-after and the old
// name, followed by those of Leave without the name. It replies like Leave, followed by the stamp of the new
// token; or with 0 if a has nothing any more, or -1 if it was executed after its not-after.
//
// If Swap fails, the new hold is released in the background. The caller keeps a, and does not know whether
// that still has the lock.
func (a *Attempt) Swap(ctx context.Context, script *scripts.Script, request *Request) (Hold, error) {
	a.Begin(nil)
	b := a.q.newAttempt(request)
	if err := (swapExchange{b}).sendSwap(ctx, script, a); err != nil {
		b.Abandon()
		return nil, err
	}
	a.end()
	leaveExchange{a}.finish(false)
	return b, nil
}

// sendSwap repeats the script until a has replaced old.
func (a swapExchange) sendSwap(ctx context.Context, script *scripts.Script, old *Attempt) error {
	registry, q := a.q.registry, a.q
	last := &wire.LastReply{}
	for {
		sent := timers.Now()
		reply, err := registry.session.Runner.Run(ctx, a.swapCall(script, old, sent))
		switch {
		case err != nil:
			enterExchange(a).handleEnterError(err)
			err = last.Record(ctx, err)
		case reply.Code() == wire.Done:
			a.handleSwapReply(reply, sent)
			return nil
		case reply.Code() == wire.NotDone:
			return errs.ErrLostGone
		default:
			registry.session.Clock.Observe(q.keys.Slot, reply.Stamp(1), timers.Now())
		}
		if err == nil {
			err = a.pause(ctx, last)
		}
		if err != nil {
			return err
		}
	}
}

func (a swapExchange) swapCall(script *scripts.Script, old *Attempt, sent timers.Instant) wire.Call {
	registry, q := a.q.registry, a.q
	leave := leaveExchange{old}.leaveCall(nil, nil, 0)
	registry.mu.Lock()
	defer registry.mu.Unlock()
	notAfter := registry.session.NotAfter(q.keys.Slot, sent, session.MaxPatience)
	a.footprint.Send(notAfter)
	return wire.Call{
		Script: script,
		Keys:   q.keys.AppendKeys(nil),
		Args:   append([]string{a.ticket(), micros(a.request.Life), notAfter.Text()}, leave.Args...),
	}
}

// handleSwapReply handles the reply by which a has the lock.
func (a swapExchange) handleSwapReply(reply wire.Reply, sent timers.Instant) {
	registry, now := a.q.registry, timers.Now()
	registry.mu.Lock()
	a.grant = Grant{Stamp: reply.Stamp(4), Last: reply.Stamp(4), Life: a.request.Life, Sent: sent, Read: now.Mono()}
	a.toLocked(begun)
	a.leftTicketLocked()
	registry.mu.Unlock()
	leaveExchange(a).readGrants(reply)
}
