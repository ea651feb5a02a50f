// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// Swap replaces a, which has the lock, by an attempt with that request, using script, and repeats the call until
// it has a reply or ctx ends. The call of script is a proto.Split.
//
// If Swap fails, the new hold is released in the background. The caller keeps a, and does not know whether
// that still has the lock.
func (a *Attempt) Swap(ctx context.Context, script *scripts.Script, request *Request) (Hold, error) {
	a.Register(nil)
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
		split := proto.ReadSplitDone(&reply)
		switch {
		case err != nil:
			enterExchange(a).handleEnterError(err)
			err = last.Record(ctx, err)
		case split.Code == wire.Done:
			a.handleSwapReply(&split, sent)
			return nil
		case split.Code == wire.NotDone:
			return errs.ErrLostGone
		default:
			registry.session.Clock.Observe(q.keys.Slot, split.Now, timers.Now())
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
	q, s := a.q, a.q.registry.session
	q.registry.mu.Lock()
	defer q.registry.mu.Unlock()
	notAfter := s.NotAfter(q.keys.Slot, sent, session.MaxPatience)
	a.footprint.Send(notAfter)
	split := proto.Split{
		Ticket: a.ticket(), LifeUS: micros(a.request.Life), NotAfter: notAfter.Text(), Hold: old.Name(), Session: s.ID(),
		Verb: s.PublishCommand(), Channel: q.channel(), KeepMS: old.request.FloorTTL,
	}
	return wire.Call{Script: script, Keys: q.keys.AppendKeys(nil), Args: split.AppendTo(nil)}
}

func (a swapExchange) handleSwapReply(split *proto.SplitDone, sent timers.Instant) {
	registry, now := a.q.registry, timers.Now()
	registry.mu.Lock()
	a.grant = Grant{Stamp: split.Stamp, Last: split.Stamp, Life: a.request.Life, Sent: sent, Read: now.Mono()}
	a.toLocked(begun)
	a.leftTicketLocked()
	registry.mu.Unlock()
	leaveExchange(a).applyGranted(split.Granted)
}

// YieldResult is the result of a Yield.
type YieldResult int

const (
	// YieldGone says that the hold no longer has the lock.
	YieldGone YieldResult = iota
	// YieldKept says that the hold continues, with a new grant.
	YieldKept
	// YieldReleased says that the hold was released for other waiters in the queue.
	YieldReleased
)

// Yield asks with script whether the unused hold of a may continue for local waiters with the same share key. The hold
// continues if only these waiters are in the queue, and is released otherwise. After an error the outcome is unknown.
//
// The call of script is a proto.Yield.
func (a *Attempt) Yield(ctx context.Context, script *scripts.Script) (YieldResult, error) {
	registry := a.q.registry
	sent := timers.Now()
	reply, err := registry.session.Runner.Run(ctx, yieldExchange{a}.yieldCall(script))
	if err != nil {
		return YieldGone, err
	}
	switch yielded := proto.ReadYielded(&reply); yielded.Code {
	case wire.NotDone:
		return YieldGone, nil
	case wire.Done:
		registry.mu.Lock()
		defer registry.mu.Unlock()
		a.grant = Grant{Stamp: yielded.Stamp, Last: yielded.Stamp.BlockEnd(), Life: a.request.Life, Sent: sent, Read: timers.Mono()}
		return YieldKept, nil
	default: // the hold was released
		a.end()
		leaveExchange{a}.applyGranted(yielded.Granted)
		leaveExchange{a}.finish(false)
		return YieldReleased, nil
	}
}

func (a yieldExchange) yieldCall(script *scripts.Script) wire.Call {
	s := a.q.registry.session
	yield := proto.Yield{
		Hold: a.Name(), LifeUS: micros(a.request.Life), Attempts: a.waitingWithSameKey(), Session: s.ID(), Verb: s.PublishCommand(),
		Channel: a.q.channel(), KeepMS: a.request.FloorTTL,
	}
	return wire.Call{Script: script, Keys: a.q.keys.AppendKeys(nil), Args: yield.AppendTo(nil)}
}

// waitingWithSameKey returns the waiting attempts of this session to which the hold of a can be handed over, among the first
// maxListed. More attempts wait only for a moment.
func (a yieldExchange) waitingWithSameKey() string {
	a.q.registry.mu.Lock()
	defer a.q.registry.mu.Unlock()
	var ids strings.Builder
	if a.q.waitState == nil {
		return ""
	}
	first := 0
	for other := range a.q.waiting.all() {
		if first++; first > maxListed {
			break
		}
		if other.state == queued && other.request.ShareKey == a.request.ShareKey {
			ids.WriteString(other.id())
		}
	}
	return ids.String()
}

// Requeue releases the hold of a and queues the session again with the same request, in one call, and waits for the reply until
// ctx ends. The parameters and wasHeld are those of Release. next may be granted already; it is nil if the server made no
// ticket. After an error the release is repeated in the background, and next may have a ticket. The caller has counted one more
// in the session (Session.Begin), which is next.
func (a *Attempt) Requeue(ctx context.Context, lastUsed wire.Stamp, expiresIn time.Duration) (next Ticket, wasHeld bool, err error) {
	a.Register(nil) // see Release
	q := a.q.registry.use(a.q.keys)
	q.listenIfSubscribed()
	t := new(QueuedTicket)
	t.first.beginWaiting(q, a.request)
	call, sent := requeueExchange{&t.first}.requeueCall(a, lastUsed)
	t.waiting().since = sent
	runner := q.registry.session.Runner
	reply, err := runner.Run(ctx, call)
	if err != nil && wire.TryAgain(err) {
		reply, err = runner.Run(ctx, withHolderKeyAlone(call))
	}
	a.end()
	if err != nil {
		leaveExchange{a}.handleReleaseError(err, expiresIn)
		enterExchange{&t.first}.handleEnterError(err)
		if wire.Judge(err) != wire.Unknown {
			t.Leave()
			return nil, false, err
		}
		requeueExchange{&t.first}.handleRequeueUnknown()
		return t, false, err
	}
	result := proto.ReadRequeued(&reply)
	isQueued := requeueExchange{&t.first}.handleRequeueReply(&result, sent)
	leaveExchange{a}.finish(!result.OldGone)
	if !isQueued {
		t.Leave()
		return nil, result.WasHeld, nil
	}
	return t, result.WasHeld, nil
}

// requeueCall returns the call that releases old and queues a, and the time of its sending.
func (a requeueExchange) requeueCall(old *Attempt, lastUsed wire.Stamp) (call wire.Call, sent timers.Instant) {
	q, s := a.q, a.q.registry.session
	q.registry.mu.Lock()
	defer q.registry.mu.Unlock()
	sent = timers.Now()
	a.sendLocked(s.NotAfter(q.keys.Slot, sent, session.MaxPatience))
	h := q.registry.heartbeatLocked(sent)
	requeue := proto.Requeue{
		Old: old.Name(), New: a.ticket(), LifeUS: micros(a.request.Life), NotAfter: a.footprint.NotAfter.Text(),
		HeartbeatUS: micros(h.life), Number: h.number, Label: s.Settings.Label, Verb: s.PublishCommand(), Channel: q.channel(),
		KeepMS: a.request.FloorTTL, Used: leaveExchange{old}.usedArg(lastUsed), Certain: proto.Flag(old.footprint.HasNoTicket()),
	}
	return wire.Call{Script: q.registry.protocol.Requeue, Keys: q.keys.AppendKeys(nil), Args: requeue.AppendTo(nil)}, sent
}

// handleRequeueReply handles the reply to a requeue. It returns false if a has no ticket.
func (a requeueExchange) handleRequeueReply(reply *proto.Requeued, sent timers.Instant) bool {
	registry, q, now := a.q.registry, a.q, timers.Now()
	if reply.Code == wire.Foreign {
		return false // another kind of lock has the name: the hold is lost, and the next enter returns the error
	}
	registry.session.Clock.Observe(q.keys.Slot, reply.Now, now)
	if reply.Code != wire.Done && reply.Code != wire.NotDone {
		return false
	}
	if registry.applyGrants(reply.Grants); reply.Code == wire.NotDone {
		q.listen()
	}
	registry.mu.Lock()
	defer registry.mu.Unlock()
	if reply.Code == wire.NotDone {
		q.recordHeartbeatLocked(sent)
	}
	if errors.Is(enterExchange(a).joinedLocked(reply.Entered, sent, now), errTooSlow) {
		a.awaitPollLocked()
	}
	return true
}

// handleRequeueUnknown records that the requeue for a had no reply. A poll finds out what a has.
func (a requeueExchange) handleRequeueUnknown() {
	a.q.listen()
	a.q.registry.mu.Lock()
	defer a.q.registry.mu.Unlock()
	if a.state == entering {
		a.awaitPollLocked()
	}
}
