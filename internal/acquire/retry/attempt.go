// SPDX-License-Identifier: Apache-2.0

package retry

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/signalbox-go/signalbox/internal/acquire/queue"
	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// attempt is one hold id: a request for the lock, and the hold that results. The mutex of the LockRegistry guards the
// fields, except for the fields that are assigned once.
type attempt struct {
	lock    *retriedLock
	holdID  string         // assigned once
	request *queue.Request // assigned once
	waiting bool           // the attempt waits, and does not only try; assigned once, before other goroutines know it

	granted        bool // the attempt has the lock, or had it
	grant          queue.Grant
	localHold      queue.LocalHold
	mayHaveHold    bool       // a try was sent that may have left something
	needsRecheck   bool       // Recheck was called before Begin: the attempt may have had the lock before that, and lost it
	outcomeUnknown bool       // a try had no reply
	hasTicket      bool       // the reply to a try says that the attempt has a ticket at the server
	notAfter       wire.Stamp // the not-after of the newest try that had no reply, or is on its way
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
	return a.mayHaveHold
}

// tryOutcome is the result of a try.
type tryOutcome int

const (
	tryGranted tryOutcome = iota
	tryHeld
	tryLate // the try was executed after its not-after, or the reply took longer than the lease lasts
)

// tryResult is what the reply to a try says.
type tryResult struct {
	outcome tryOutcome
	heldFor time.Duration // for how long the lock is held at most
}

// try sends one acquire.
func (a *attempt) try(ctx context.Context) (tryResult, error) {
	registry := a.lock.registry
	waiting := "0"
	if a.waiting {
		waiting = "1"
	}
	return a.send(ctx, registry.config.Acquire, slices.Concat([]string{registry.verb(), a.lock.keys.Channel, waiting}, registry.config.Args, a.request.Args))
}

// send runs a script that may give a the lock.
func (a *attempt) send(ctx context.Context, script *scripts.Script, args []string) (tryResult, error) {
	s, keys := a.lock.registry.session, a.lock.keys
	if err := s.Handshake(ctx, keys.Holder); err != nil {
		return tryResult{outcome: tryLate}, err
	}
	sent := clock.Now()
	reply, err := s.Runner.Run(ctx, wire.Call{
		Script: script,
		Keys:   keys.All,
		Args:   append([]string{a.holdID, wire.Milliseconds(a.request.Life), a.prepareTry(sent).Text()}, args...),
	})
	if err != nil {
		a.handleTryError(err)
		return tryResult{outcome: tryLate}, err
	}
	return a.handleTryReply(reply, sent)
}

// prepareTry prepares one try, and returns its not-after.
func (a *attempt) prepareTry(sent clock.Instant) wire.Stamp {
	registry := a.lock.registry
	notAfter := registry.session.NotAfter(a.lock.keys.Slot, sent, a.request.Life)
	registry.mu.Lock()
	defer registry.mu.Unlock()
	a.mayHaveHold, a.notAfter = true, max(a.notAfter, notAfter)
	return notAfter
}

// handleTryError handles the error of a try. A key of another program has nothing of a.
func (a *attempt) handleTryError(err error) {
	a.lock.registry.mu.Lock()
	defer a.lock.registry.mu.Unlock()
	a.outcomeUnknown = a.outcomeUnknown || wire.Judge(err) == wire.Unknown
	a.mayHaveHold = a.outcomeUnknown || a.hasTicket || !errors.Is(err, errs.ErrWrongKind)
}

// handleTryReply handles the reply to a try.
func (a *attempt) handleTryReply(reply wire.Reply, sent clock.Instant) (tryResult, error) {
	registry, now := a.lock.registry, clock.Now()
	slot := a.lock.keys.Slot
	switch code := reply.Code(); {
	case code == wire.Done && reply.Stamp(1) != 0:
		registry.session.Clock.Observe(slot, reply.Stamp(1), now)
		if clock.Deadline(sent, a.request.Life).Reached(now) {
			return tryResult{outcome: tryLate}, nil // the hold expired before it began; the next try extends it
		}
		registry.mu.Lock()
		defer registry.mu.Unlock()
		a.granted = true
		a.grant = a.newGrant(reply, sent, now)
		return tryResult{outcome: tryGranted}, nil
	case code == wire.NotDone && reply.Stamp(2) != 0:
		registry.session.Clock.Observe(slot, reply.Stamp(2), now)
		a.recordTicket()
		a.recordNothing()
		return tryResult{tryHeld, time.Duration(reply.Int(1)) * time.Millisecond}, nil
	case code == wire.Late && reply.Stamp(1) != 0:
		registry.session.Clock.Observe(slot, reply.Stamp(1), now)
		a.recordNothing()
		return tryResult{outcome: tryLate}, nil
	case code == wire.Foreign:
		a.recordNothing()
		return tryResult{outcome: tryHeld}, session.WrongKind(reply.Text(1))
	case code == wire.TooFew, code == wire.OtherCapacity:
		a.recordNothing()
		return tryResult{outcome: tryHeld}, registry.config.Refusal(reply)
	default:
		a.handleTryError(wire.ErrUnreadable)
		return tryResult{outcome: tryLate}, wire.ErrUnreadable
	}
}

// newGrant returns what a reply to a try grants.
func (a *attempt) newGrant(reply wire.Reply, sent, now clock.Instant) queue.Grant {
	stamp := reply.Stamp(1)
	grant := queue.Grant{Stamp: stamp, Last: stamp, Life: a.request.Life, Sent: sent, Read: now}
	switch {
	case reply.Len() > 2:
		grant.Counted, grant.Token = true, uint64(max(reply.Int(2), 0)) //nolint:gosec // not negative
	case a.lock.registry.config.HandsOver:
		grant.Last = stamp.ReservedEnd()
	}
	return grant
}

// recordTicket records that a has a ticket at the server, if each waiter has one.
func (a *attempt) recordTicket() {
	registry := a.lock.registry
	registry.mu.Lock()
	defer registry.mu.Unlock()
	a.hasTicket = registry.config.ChannelPerWaiter && a.waiting
}

// recordNothing records that a has nothing at the server, unless a copy of a try may still arrive, or a has a ticket there.
func (a *attempt) recordNothing() {
	registry := a.lock.registry
	registry.mu.Lock()
	defer registry.mu.Unlock()
	a.mayHaveHold = a.outcomeUnknown || a.hasTicket
}

// hasLock reports whether a was granted the lock.
func (a *attempt) hasLock() bool {
	a.lock.registry.mu.Lock()
	defer a.lock.registry.mu.Unlock()
	return a.granted
}

// Grant implements queue.ServerHold.
func (a *attempt) Grant() queue.Grant {
	a.lock.registry.mu.Lock()
	defer a.lock.registry.mu.Unlock()
	return a.grant
}

// Name implements queue.ServerHold.
func (a *attempt) Name() string { return a.holdID }

// Begin implements queue.ServerHold.
func (a *attempt) Begin(localHold queue.LocalHold) {
	a.lock.registry.mu.Lock()
	a.localHold = localHold
	needsRecheck := a.needsRecheck && localHold != nil
	a.needsRecheck = a.needsRecheck && localHold == nil
	a.lock.registry.mu.Unlock()
	if needsRecheck {
		localHold.Recheck()
	}
}

// Extended implements queue.ServerHold.
func (a *attempt) Extended(life time.Duration, sent clock.Instant) {
	a.lock.registry.mu.Lock()
	defer a.lock.registry.mu.Unlock()
	a.grant.Life, a.grant.Sent = life, sent
}

// Abandon implements queue.ServerHold.
func (a *attempt) Abandon() {
	mayHave := a.end()
	a.finish(false)
	if mayHave {
		a.repeatReleaseUntil(clock.Now().Add(session.MaxPatience + a.request.Life))
	} else {
		a.forget()
	}
}

// Release implements queue.ServerHold.
func (a *attempt) Release(ctx context.Context, _ wire.Stamp, expiresIn time.Duration) (wasHeld bool, err error) {
	a.end()
	reply, err := a.lock.registry.session.Runner.Run(ctx, a.releaseCall())
	if err != nil {
		a.finish(false)
		a.repeatReleaseUntil(clock.Now().Add(expiresIn))
		return false, err
	}
	a.finish(reply.Int(2) == 1)
	if a.copyExecutableFor(reply.Stamp(1)) > 0 {
		a.repeatReleaseUntil(clock.Now().Add(session.MaxPatience + a.request.Life))
	} else {
		a.forget()
	}
	return reply.Code() != wire.NotDone, nil
}

func (a *attempt) releaseCall() wire.Call {
	registry, keys := a.lock.registry, a.lock.keys
	return wire.Call{Script: registry.config.Release, Keys: keys.All, Args: append([]string{a.holdID, registry.verb(), keys.Channel}, registry.config.Args...)}
}

// repeatReleaseUntil repeats the release off the caller's path until it has a reply. If a try has an unknown outcome, it
// continues until no copy of that try can arrive any more.
func (a *attempt) repeatReleaseUntil(until clock.Instant) {
	undo := &session.Undo{Call: a.releaseCall(), Until: until, ExecutableUntil: a.copyExecutableUntil(), OnDone: func(error) { a.forget() }}
	undo.OnReply = func(reply wire.Reply) time.Duration {
		return undo.RepeatAfter(a.copyExecutableFor(reply.Stamp(1)), a.request.Life)
	}
	a.lock.registry.session.Undoer.Start(undo)
}

// copyExecutableUntil returns until when a copy of a try may still be executed. It returns the zero Instant if no copy can be.
func (a *attempt) copyExecutableUntil() clock.Instant {
	a.lock.registry.mu.Lock()
	defer a.lock.registry.mu.Unlock()
	if !a.outcomeUnknown {
		return clock.Instant{}
	}
	return clock.Now().Add(session.MaxPatience)
}

// copyExecutableFor returns for how long after server, the server's time, a copy of a try may still be executed. It returns 0
// if no copy can be.
func (a *attempt) copyExecutableFor(server wire.Stamp) time.Duration {
	a.lock.registry.mu.Lock()
	defer a.lock.registry.mu.Unlock()
	if !a.outcomeUnknown {
		return 0
	}
	return session.ExecutableFor(a.notAfter, server)
}
