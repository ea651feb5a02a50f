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

// attempt is one hold id: a request for the lock, and the hold that results. The lock of its Contests
// guards its fields, except those that say otherwise.
type attempt struct {
	lock    *retriedLock
	holdID  string         // assigned once
	request *queue.Request // assigned once
	waiting bool           // it waits, or came to try; assigned once, before any other goroutine knows it

	granted        bool // it has the lock, or had it
	grant          queue.Grant
	localHold      queue.LocalHold
	mayHaveHold    bool       // a try was sent that may have left something
	needsRecheck   bool       // Recheck was called before Begin: it may have had the lock before that, and no more
	outcomeUnknown bool       // a try had no reply
	hasTicket      bool       // the reply to a try says that it has a ticket there
	notAfter       wire.Stamp // of the newest try that had no reply, or is on its way
}

// begin makes an attempt known, before anything of it is sent.
func (q *retriedLock) newAttempt(wish *queue.Request) *attempt {
	c := q.registry
	hold := ""
	if c.config.NewHold != nil {
		hold = c.config.NewHold(c.session.ID())
	} else {
		hold = c.session.NewHoldIn(c.config.Layout)
	}
	a := &attempt{lock: q, holdID: hold + wish.Mode, request: wish}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.attempts[a] = struct{}{}
	q.unfinished++
	return a
}

// forget removes a: the server has nothing of it any more, or what it has ends by itself.
func (a *attempt) forget() {
	c := a.lock.registry
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.mu.attempts, a)
}

// end makes a be over, and reports whether it may have something on the server. vacate follows.
func (a *attempt) end() (may bool) {
	a.lock.registry.mu.Lock()
	defer a.lock.registry.mu.Unlock()
	a.localHold = nil
	return a.mayHaveHold
}

// outcome is the result of a try.
type tryOutcome int

const (
	tryGranted tryOutcome = iota
	tryHeld
	tryLate // executed after its not-after, or the reply took longer than the lease lasts
)

// result is what the reply to a try says.
type tryResult struct {
	outcome tryOutcome
	heldFor time.Duration // how long the lock is held at most
}

// try sends one acquire.
func (a *attempt) try(ctx context.Context) (tryResult, error) {
	c := a.lock.registry
	waits := "0"
	if a.waiting {
		waits = "1"
	}
	return a.send(ctx, c.config.Acquire, slices.Concat([]string{c.verb(), a.lock.keys.Channel, waits}, c.config.Args, a.request.Args))
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

// toSend prepares one try, and returns its not-after.
func (a *attempt) prepareTry(sent clock.Instant) wire.Stamp {
	c := a.lock.registry
	notAfter := c.session.NotAfter(a.lock.keys.Slot, sent, a.request.Life)
	c.mu.Lock()
	defer c.mu.Unlock()
	a.mayHaveHold, a.notAfter = true, max(a.notAfter, notAfter)
	return notAfter
}

// failed handles the error of a try. A key of another program has nothing of a.
func (a *attempt) handleTryError(err error) {
	a.lock.registry.mu.Lock()
	defer a.lock.registry.mu.Unlock()
	a.outcomeUnknown = a.outcomeUnknown || wire.Judge(err) == wire.Unknown
	a.mayHaveHold = a.outcomeUnknown || a.hasTicket || !errors.Is(err, errs.ErrWrongKind)
}

// replied handles the reply to a try.
func (a *attempt) handleTryReply(reply wire.Reply, sent clock.Instant) (tryResult, error) {
	c, now := a.lock.registry, clock.Now()
	slot := a.lock.keys.Slot
	switch code := reply.Code(); {
	case code == wire.Done && reply.Stamp(1) != 0:
		c.session.Clock.Observe(slot, reply.Stamp(1), now)
		if clock.Deadline(sent, a.request.Life).Reached(now) {
			return tryResult{outcome: tryLate}, nil // over before it began; the next try lengthens it
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		a.granted = true
		a.grant = a.newGrant(reply, sent, now)
		return tryResult{outcome: tryGranted}, nil
	case code == wire.NotDone && reply.Stamp(2) != 0:
		c.session.Clock.Observe(slot, reply.Stamp(2), now)
		a.recordTicket()
		a.recordNothing()
		return tryResult{tryHeld, time.Duration(reply.Int(1)) * time.Millisecond}, nil
	case code == wire.Late && reply.Stamp(1) != 0:
		c.session.Clock.Observe(slot, reply.Stamp(1), now)
		a.recordNothing()
		return tryResult{outcome: tryLate}, nil
	case code == wire.Foreign:
		a.recordNothing()
		return tryResult{outcome: tryHeld}, session.WrongKind(reply.Text(1))
	case code == wire.TooFew, code == wire.OtherCapacity:
		a.recordNothing()
		return tryResult{outcome: tryHeld}, c.config.Refusal(reply)
	default:
		a.handleTryError(wire.ErrUnreadable)
		return tryResult{outcome: tryLate}, wire.ErrUnreadable
	}
}

// given returns what a reply to a try grants.
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

// waited notes that a has a ticket on the server, if each waiter has one.
func (a *attempt) recordTicket() {
	c := a.lock.registry
	c.mu.Lock()
	defer c.mu.Unlock()
	a.hasTicket = c.config.ChannelPerWaiter && a.waiting
}

// nothingSent notes that a has nothing on the server, unless a copy of a try may still arrive, or a has a
// ticket there.
func (a *attempt) recordNothing() {
	c := a.lock.registry
	c.mu.Lock()
	defer c.mu.Unlock()
	a.mayHaveHold = a.outcomeUnknown || a.hasTicket
}

// hasLock reports whether a was granted the lock.
func (a *attempt) hasLock() bool {
	a.lock.registry.mu.Lock()
	defer a.lock.registry.mu.Unlock()
	return a.granted
}

// Grant implements queue.Holder.
func (a *attempt) Grant() queue.Grant {
	a.lock.registry.mu.Lock()
	defer a.lock.registry.mu.Unlock()
	return a.grant
}

// Name implements queue.Holder.
func (a *attempt) Name() string { return a.holdID }

// Begin implements queue.Holder.
func (a *attempt) Begin(tenant queue.LocalHold) {
	a.lock.registry.mu.Lock()
	a.localHold = tenant
	doubtful := a.needsRecheck && tenant != nil
	a.needsRecheck = a.needsRecheck && tenant == nil
	a.lock.registry.mu.Unlock()
	if doubtful {
		tenant.Recheck()
	}
}

// Lengthened implements queue.Holder.
func (a *attempt) Extended(life time.Duration, sent clock.Instant) {
	a.lock.registry.mu.Lock()
	defer a.lock.registry.mu.Unlock()
	a.grant.Life, a.grant.Sent = life, sent
}

// Abandon implements queue.Holder.
func (a *attempt) Abandon() {
	mayHave := a.end()
	a.finish(false)
	if mayHave {
		a.repeatReleaseUntil(clock.Now().Add(session.MaxPatience + a.request.Life))
	} else {
		a.forget()
	}
}

// Release implements queue.Holder.
func (a *attempt) Release(ctx context.Context, _ wire.Stamp, lasts time.Duration) (had bool, err error) {
	a.end()
	reply, err := a.lock.registry.session.Runner.Run(ctx, a.releaseCall())
	if err != nil {
		a.finish(false)
		a.repeatReleaseUntil(clock.Now().Add(lasts))
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
	c, keys := a.lock.registry, a.lock.keys
	return wire.Call{Script: c.config.Release, Keys: keys.All, Args: append([]string{a.holdID, c.verb(), keys.Channel}, c.config.Args...)}
}

// releaseUntil repeats the release off the caller's path until it has a reply, and, if a try has an unknown
// outcome, until no copy of that try can arrive any more.
func (a *attempt) repeatReleaseUntil(until clock.Instant) {
	t := &session.Undo{Call: a.releaseCall(), Until: until, ExecutableUntil: a.copyExecutableUntil(), OnDone: func(error) { a.forget() }}
	t.OnReply = func(reply wire.Reply) time.Duration {
		return t.RepeatAfter(a.copyExecutableFor(reply.Stamp(1)), a.request.Life)
	}
	a.lock.registry.session.Undoer.Start(t)
}

// arrives returns until when a copy of a try may still arrive; zero if none can.
func (a *attempt) copyExecutableUntil() clock.Instant {
	a.lock.registry.mu.Lock()
	defer a.lock.registry.mu.Unlock()
	if !a.outcomeUnknown {
		return clock.Instant{}
	}
	return clock.Now().Add(session.MaxPatience)
}

// copyLeft returns how long after the server's time a copy of a try may still arrive; 0 if none can.
func (a *attempt) copyExecutableFor(server wire.Stamp) time.Duration {
	a.lock.registry.mu.Lock()
	defer a.lock.registry.mu.Unlock()
	if !a.outcomeUnknown {
		return 0
	}
	return session.ExecutableFor(a.notAfter, server)
}
