// SPDX-License-Identifier: Apache-2.0

package acquire

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/queue"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// attempt is one hold id: a request for the lock, and the hold that results. The mutex of the RetryRegistry guards the
// fields, except for the fields that are assigned once.
type attempt struct {
	lock    *retriedLock
	holdID  string         // assigned once
	request *queue.Request // assigned once
	waiting bool           // the attempt waits, and does not only try; assigned once, before other goroutines know it

	grant        queue.Grant // the zero Grant until the attempt has the lock
	localHold    session.LocalHold
	footprint    session.Footprint // what the server may have of the attempt
	leftBefore   session.Remains   // what the tries before the newest one left
	needsRecheck bool              // Recheck was called before Register: the attempt may have had the lock before that, and lost it
}

// newAttempt registers an attempt, before anything of it is sent.
func (l *retriedLock) newAttempt(request *queue.Request) *attempt {
	registry := l.registry
	hold := ""
	if registry.config.NewHold != nil {
		hold = registry.config.NewHold(registry.session.ID())
	} else {
		hold = registry.session.NewHoldIn(registry.config.Layout)
	}
	a := &attempt{lock: l, holdID: hold + request.Mode, request: request}
	registry.mu.Lock()
	defer registry.mu.Unlock()
	registry.mu.attempts[a] = struct{}{}
	l.unfinished++
	return a
}

// forget unregisters a: the server has nothing of a any more, or what it has expires by itself.
func (a *attempt) forget() {
	registry := a.lock.registry
	registry.mu.Lock()
	defer registry.mu.Unlock()
	delete(registry.mu.attempts, a)
}

// end ends a, and reports whether a may have something on the server. A call of finish follows.
func (a *attempt) end() (mayHave bool) {
	a.lock.registry.mu.Lock()
	defer a.lock.registry.mu.Unlock()
	a.localHold = nil
	return !a.footprint.IsEmpty()
}

// errLate is the error of a try that was executed after its not-after, or whose reply took longer than the lease lasts.
var errLate = errors.New("the server took longer than the lease lasts")

// try sends one acquire. If the error is errs.ErrHeld, the lock is held for at most heldFor.
func (a *attempt) try(ctx context.Context) (heldFor time.Duration, err error) {
	registry := a.lock.registry
	acquire := proto.RetryAcquire{
		Hold: a.holdID, TTLMS: wire.Milliseconds(a.request.Life), Verb: registry.verb(), Channel: a.lock.keys.Channel, Waits: proto.Flag(a.waiting),
		Terms: slices.Concat(registry.config.Args, a.request.Args),
	}
	return a.send(ctx, registry.config.Acquire, func(notAfter string) []string {
		acquire.NotAfter = notAfter
		return acquire.AppendTo(nil)
	})
}

// send runs a script that may give a the lock; args returns its arguments. It returns what try returns.
func (a *attempt) send(ctx context.Context, script *scripts.Script, args func(notAfter string) []string) (heldFor time.Duration, err error) {
	s := a.lock.registry.session
	if err := s.Handshake(ctx, a.lock.names.Holder); err != nil {
		return 0, err
	}
	sent := timers.Now()
	reply, err := s.Runner.Run(ctx, wire.Call{Script: script, Keys: a.lock.keys.All, Args: args(a.prepareTry(sent).Text())})
	if err != nil {
		a.handleTryError(err)
		return 0, err
	}
	return a.handleTryReply(proto.ReadTried(&reply), sent)
}

// prepareTry prepares one try, and returns its not-after.
func (a *attempt) prepareTry(sent timers.Instant) wire.Stamp {
	registry := a.lock.registry
	notAfter := registry.session.NotAfter(a.lock.names.Slot, sent, a.request.Life)
	registry.mu.Lock()
	defer registry.mu.Unlock()
	a.footprint.Send(notAfter)
	a.leftBefore = a.footprint.Left
	a.footprint.Note(session.HoldLeft)
	return notAfter
}

// handleTryError handles the error of a try. A key of another program has nothing of a, and a try that was not executed adds nothing.
func (a *attempt) handleTryError(err error) {
	a.lock.registry.mu.Lock()
	defer a.lock.registry.mu.Unlock()
	a.footprint.Unknown = a.footprint.Unknown || wire.Judge(err) == wire.Unknown
	switch {
	case errors.Is(err, errs.ErrWrongKind):
		a.leftNoHoldLocked()
	case !wire.MayHaveRun(err):
		a.footprint.Left = a.leftBefore
	}
}

// leftNoHoldLocked records that the newest try left no hold.
func (a *attempt) leftNoHoldLocked() {
	if a.footprint.Left == session.HoldLeft {
		a.footprint.Left = session.NothingLeft
	}
}

func (a *attempt) handleTryReply(t proto.Tried, sent timers.Instant) (heldFor time.Duration, err error) {
	registry, now := a.lock.registry, timers.Now()
	slot := a.lock.names.Slot
	switch {
	case t.Code == wire.Done && t.Now != 0:
		registry.session.Clock.Observe(slot, t.Now, now)
		if timers.Deadline(sent, a.request.Life).Reached(now) {
			return 0, errLate // the hold expired before it began; the next try extends it
		}
		registry.mu.Lock()
		defer registry.mu.Unlock()
		a.grant = a.newGrant(&t, sent, now)
		return 0, nil
	case t.Code == wire.NotDone && t.Now != 0:
		registry.session.Clock.Observe(slot, t.Now, now)
		a.recordHeld()
		return t.Left, errs.ErrHeld
	case t.Code == wire.Late && t.Now != 0:
		registry.session.Clock.Observe(slot, t.Now, now)
		a.recordNothing()
		return 0, errLate
	case t.Code == wire.Foreign:
		a.recordNothing()
		return 0, proto.WrongKind(t.Kind)
	case t.Code == wire.TooFew, t.Code == wire.OtherCapacity:
		a.recordNothing()
		return 0, registry.config.Refusal(t.Code, t.Capacity)
	default:
		a.handleTryError(wire.ErrUnreadable)
		return 0, wire.ErrUnreadable
	}
}

// newGrant returns what a reply to a try grants.
func (a *attempt) newGrant(t *proto.Tried, sent, now timers.Instant) queue.Grant {
	grant := queue.Grant{Stamp: t.Now, Last: t.Now, Life: a.request.Life, Sent: sent, Read: now.Mono()}
	switch {
	case t.Token > 0:
		grant.Last = queue.LastOfCounted(t.Token)
	case a.lock.registry.config.HandsOver && !t.Counts:
		grant.Last = t.Now.ReservedEnd()
	}
	return grant
}

// recordHeld records that the lock is held: a has no hold, but a ticket if each waiter has one.
func (a *attempt) recordHeld() {
	registry := a.lock.registry
	registry.mu.Lock()
	defer registry.mu.Unlock()
	if a.leftNoHoldLocked(); registry.config.ChannelPerWaiter && a.waiting {
		a.footprint.Note(session.TicketLeft)
	}
}

// recordNothing records that a try left nothing.
func (a *attempt) recordNothing() {
	a.lock.registry.mu.Lock()
	defer a.lock.registry.mu.Unlock()
	a.leftNoHoldLocked()
}

// hasLock reports whether a was granted the lock.
func (a *attempt) hasLock() bool {
	a.lock.registry.mu.Lock()
	defer a.lock.registry.mu.Unlock()
	return a.grant.Stamp != 0
}

// Grant implements queue.Hold.
func (a *attempt) Grant() queue.Grant {
	a.lock.registry.mu.Lock()
	defer a.lock.registry.mu.Unlock()
	return a.grant
}

// Name implements queue.Hold.
func (a *attempt) Name() string { return a.holdID }

// Register implements queue.Hold.
func (a *attempt) Register(localHold session.LocalHold) {
	a.lock.registry.mu.Lock()
	a.localHold = localHold
	needsRecheck := a.needsRecheck && localHold != nil
	a.needsRecheck = a.needsRecheck && localHold == nil
	a.lock.registry.mu.Unlock()
	if needsRecheck {
		localHold.Recheck()
	}
}

// Extended implements queue.Hold.
func (a *attempt) Extended(life time.Duration, sent timers.Instant) {
	a.lock.registry.mu.Lock()
	defer a.lock.registry.mu.Unlock()
	a.grant.Life, a.grant.Sent = life, sent
}

// Done implements queue.Hold.
func (a *attempt) Done() { a.lock.done() }

// Abandon implements queue.Hold.
func (a *attempt) Abandon() {
	mayHave := a.end()
	a.finish(false)
	a.undo(mayHave)
}

// undo repeats the release if that is needed, for as long as what the server may have lasts. Otherwise it forgets a.
func (a *attempt) undo(isNeeded bool) { //nolint:revive // a fact about the attempt, not a switch
	if isNeeded {
		a.repeatReleaseFor(session.MaxPatience + a.request.Life)
	} else {
		a.forget()
	}
}

// Release implements queue.Hold.
func (a *attempt) Release(ctx context.Context, _ wire.Stamp, expiresIn time.Duration) (wasHeld bool, err error) {
	a.end()
	reply, err := a.lock.registry.session.Runner.Run(ctx, a.releaseCall())
	if err != nil {
		a.finish(false)
		a.repeatReleaseFor(expiresIn)
		return false, err
	}
	released := proto.ReadRetryReleased(&reply)
	a.finish(released.IsHeard)
	a.undo(a.footprint.ExecutableFor(released.Now) > 0)
	return released.WasHeld, nil
}

func (a *attempt) releaseCall() wire.Call {
	registry, keys := a.lock.registry, a.lock.keys
	release := proto.RetryRelease{Hold: a.holdID, Verb: registry.verb(), Channel: keys.Channel, Terms: registry.config.Args}
	return wire.Call{Script: registry.config.Release, Keys: keys.All, Args: release.AppendTo(nil)}
}

// repeatReleaseFor repeats the release off the caller's path until it has a reply. If a try has an unknown outcome, it
// continues until no copy of that try can arrive any more.
func (a *attempt) repeatReleaseFor(lasts time.Duration) {
	undo := a.footprint.Undo(a.releaseCall(), lasts, a.request.Life)
	undo.OnDone = func(error) { a.forget() }
	a.lock.registry.session.Undoer.Start(undo)
}

// Swap implements queue.Hold; see proto.Retry for the script. It is repeated until it has a reply or
// ctx ends. If it fails, the new hold is released in the background, and a is left to the caller, who does
// not know whether a still has the lock.
func (a *attempt) Swap(ctx context.Context, script *scripts.Script, request *queue.Request) (queue.Hold, error) {
	a.Register(nil)
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
	swap := proto.RetrySwap{
		Hold: a.holdID, TTLMS: wire.Milliseconds(a.request.Life), Old: old.holdID, Verb: a.lock.registry.verb(), Channel: a.lock.keys.Channel,
		Terms: a.request.Args,
	}
	var last wire.LastReply
	for {
		_, err := a.send(ctx, script, func(notAfter string) []string {
			swap.NotAfter = notAfter
			return swap.AppendTo(nil)
		})
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
