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
	queue *contest
	hold  string         // assigned once
	wish  *queue.Request // assigned once
	waits bool           // it waits, or came to try; assigned once, before any other goroutine knows it

	granted  bool // it has the lock, or had it
	grant    queue.Grant
	tenant   queue.LocalHold
	sent     bool       // a try was sent that may have left something
	doubtful bool       // Recheck was called before Begin: it may have had the lock before that, and no more
	unknown  bool       // a try had no reply
	placed   bool       // the reply to a try says that it has a ticket there
	notAfter wire.Stamp // of the newest try that had no reply, or is on its way
}

// begin makes an attempt known, before anything of it is sent.
func (q *contest) begin(wish *queue.Request) *attempt {
	c := q.contests
	hold := ""
	if c.kind.NewHold != nil {
		hold = c.kind.NewHold(c.session.ID())
	} else {
		hold = c.session.NewHoldIn(c.kind.Layout)
	}
	a := &attempt{queue: q, hold: hold + wish.Mode, wish: wish}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.attempts[a] = struct{}{}
	q.living++
	return a
}

// forget removes a: the server has nothing of it any more, or what it has ends by itself.
func (a *attempt) forget() {
	c := a.queue.contests
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.mu.attempts, a)
}

// end makes a be over, and reports whether it may have something on the server. vacate follows.
func (a *attempt) end() (may bool) {
	a.queue.contests.mu.Lock()
	defer a.queue.contests.mu.Unlock()
	a.tenant = nil
	return a.sent
}

// outcome is the result of a try.
type outcome int

const (
	taken outcome = iota
	held
	late // executed after its not-after, or the reply took longer than the lease lasts
)

// result is what the reply to a try says.
type result struct {
	outcome outcome
	left    time.Duration // how long the lock is held at most
}

// try sends one acquire.
func (a *attempt) try(ctx context.Context) (result, error) {
	c := a.queue.contests
	waits := "0"
	if a.waits {
		waits = "1"
	}
	return a.send(ctx, c.kind.Acquire, slices.Concat([]string{c.verb(), a.queue.keys.Channel, waits}, c.kind.Args, a.wish.Args))
}

// send runs a script that may give a the lock.
func (a *attempt) send(ctx context.Context, script *scripts.Script, args []string) (result, error) {
	s, keys := a.queue.contests.session, a.queue.keys
	if err := s.Handshake(ctx, keys.Holder); err != nil {
		return result{outcome: late}, err
	}
	sent := clock.Now()
	reply, err := s.Runner.Run(ctx, wire.Call{
		Script: script,
		Keys:   keys.All,
		Args:   append([]string{a.hold, wire.Milliseconds(a.wish.Life), a.toSend(sent).Text()}, args...),
	})
	if err != nil {
		a.failed(err)
		return result{outcome: late}, err
	}
	return a.replied(reply, sent)
}

// toSend prepares one try, and returns its not-after.
func (a *attempt) toSend(sent clock.Instant) wire.Stamp {
	c := a.queue.contests
	notAfter := c.session.NotAfter(a.queue.keys.Slot, sent, a.wish.Life)
	c.mu.Lock()
	defer c.mu.Unlock()
	a.sent, a.notAfter = true, max(a.notAfter, notAfter)
	return notAfter
}

// failed handles the error of a try. A key of another program has nothing of a.
func (a *attempt) failed(err error) {
	a.queue.contests.mu.Lock()
	defer a.queue.contests.mu.Unlock()
	a.unknown = a.unknown || wire.Judge(err) == wire.Unknown
	a.sent = a.unknown || a.placed || !errors.Is(err, errs.ErrWrongKind)
}

// replied handles the reply to a try.
func (a *attempt) replied(reply wire.Reply, sent clock.Instant) (result, error) {
	c, now := a.queue.contests, clock.Now()
	slot := a.queue.keys.Slot
	switch code := reply.Code(); {
	case code == wire.Done && reply.Stamp(1) != 0:
		c.session.Clock.Observe(slot, reply.Stamp(1), now)
		if clock.Deadline(sent, a.wish.Life).Reached(now) {
			return result{outcome: late}, nil // over before it began; the next try lengthens it
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		a.granted = true
		a.grant = a.given(reply, sent, now)
		return result{outcome: taken}, nil
	case code == wire.NotDone && reply.Stamp(2) != 0:
		c.session.Clock.Observe(slot, reply.Stamp(2), now)
		a.waited()
		a.nothingSent()
		return result{held, time.Duration(reply.Int(1)) * time.Millisecond}, nil
	case code == wire.Late && reply.Stamp(1) != 0:
		c.session.Clock.Observe(slot, reply.Stamp(1), now)
		a.nothingSent()
		return result{outcome: late}, nil
	case code == wire.Foreign:
		a.nothingSent()
		return result{outcome: held}, session.WrongKind(reply.Text(1))
	case code == wire.TooFew, code == wire.OtherCapacity:
		a.nothingSent()
		return result{outcome: held}, c.kind.Refusal(reply)
	default:
		a.failed(wire.ErrUnreadable)
		return result{outcome: late}, wire.ErrUnreadable
	}
}

// given returns what a reply to a try grants.
func (a *attempt) given(reply wire.Reply, sent, now clock.Instant) queue.Grant {
	stamp := reply.Stamp(1)
	grant := queue.Grant{Stamp: stamp, Last: stamp, Life: a.wish.Life, Sent: sent, Read: now}
	switch {
	case reply.Len() > 2:
		grant.Counted, grant.Token = true, uint64(max(reply.Int(2), 0)) //nolint:gosec // not negative
	case a.queue.contests.kind.HandsOver:
		grant.Last = stamp.ReservedEnd()
	}
	return grant
}

// waited notes that a has a ticket on the server, if each waiter has one.
func (a *attempt) waited() {
	c := a.queue.contests
	c.mu.Lock()
	defer c.mu.Unlock()
	a.placed = c.kind.ChannelPerWaiter && a.waits
}

// nothingSent notes that a has nothing on the server, unless a copy of a try may still arrive, or a has a
// ticket there.
func (a *attempt) nothingSent() {
	c := a.queue.contests
	c.mu.Lock()
	defer c.mu.Unlock()
	a.sent = a.unknown || a.placed
}

// hasLock reports whether a was granted the lock.
func (a *attempt) hasLock() bool {
	a.queue.contests.mu.Lock()
	defer a.queue.contests.mu.Unlock()
	return a.granted
}

// Grant implements queue.Holder.
func (a *attempt) Grant() queue.Grant {
	a.queue.contests.mu.Lock()
	defer a.queue.contests.mu.Unlock()
	return a.grant
}

// Name implements queue.Holder.
func (a *attempt) Name() string { return a.hold }

// Begin implements queue.Holder.
func (a *attempt) Begin(tenant queue.LocalHold) {
	a.queue.contests.mu.Lock()
	a.tenant = tenant
	doubtful := a.doubtful && tenant != nil
	a.doubtful = a.doubtful && tenant == nil
	a.queue.contests.mu.Unlock()
	if doubtful {
		tenant.Recheck()
	}
}

// Lengthened implements queue.Holder.
func (a *attempt) Extended(life time.Duration, sent clock.Instant) {
	a.queue.contests.mu.Lock()
	defer a.queue.contests.mu.Unlock()
	a.grant.Life, a.grant.Sent = life, sent
}

// Abandon implements queue.Holder.
func (a *attempt) Abandon() {
	mayHave := a.end()
	a.vacate(false)
	if mayHave {
		a.releaseUntil(clock.Now().Add(session.MaxPatience + a.wish.Life))
	} else {
		a.forget()
	}
}

// Release implements queue.Holder.
func (a *attempt) Release(ctx context.Context, _ wire.Stamp, lasts time.Duration) (had bool, err error) {
	a.end()
	reply, err := a.queue.contests.session.Runner.Run(ctx, a.releaseCall())
	if err != nil {
		a.vacate(false)
		a.releaseUntil(clock.Now().Add(lasts))
		return false, err
	}
	a.vacate(reply.Int(2) == 1)
	if a.copyLeft(reply.Stamp(1)) > 0 {
		a.releaseUntil(clock.Now().Add(session.MaxPatience + a.wish.Life))
	} else {
		a.forget()
	}
	return reply.Code() != wire.NotDone, nil
}

func (a *attempt) releaseCall() wire.Call {
	c, keys := a.queue.contests, a.queue.keys
	return wire.Call{Script: c.kind.Release, Keys: keys.All, Args: append([]string{a.hold, c.verb(), keys.Channel}, c.kind.Args...)}
}

// releaseUntil repeats the release off the caller's path until it has a reply, and, if a try has an unknown
// outcome, until no copy of that try can arrive any more.
func (a *attempt) releaseUntil(until clock.Instant) {
	t := &session.Undo{Call: a.releaseCall(), Until: until, ExecutableUntil: a.arrives(), OnDone: func(error) { a.forget() }}
	t.OnReply = func(reply wire.Reply) time.Duration {
		return t.RepeatAfter(a.copyLeft(reply.Stamp(1)), a.wish.Life)
	}
	a.queue.contests.session.Undoer.Start(t)
}

// arrives returns until when a copy of a try may still arrive; zero if none can.
func (a *attempt) arrives() clock.Instant {
	a.queue.contests.mu.Lock()
	defer a.queue.contests.mu.Unlock()
	if !a.unknown {
		return clock.Instant{}
	}
	return clock.Now().Add(session.MaxPatience)
}

// copyLeft returns how long after the server's time a copy of a try may still arrive; 0 if none can.
func (a *attempt) copyLeft(server wire.Stamp) time.Duration {
	a.queue.contests.mu.Lock()
	defer a.queue.contests.mu.Unlock()
	if !a.unknown {
		return 0
	}
	return session.ExecutableFor(a.notAfter, server)
}
