// SPDX-License-Identifier: Apache-2.0

package contend

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

// attempt is one hold id: a wish for the lock, and the hold that comes of it. Fields without a word on that are guarded by
// the lock of its Contests.
type attempt struct {
	queue *contest
	hold  string      // assigned once
	wish  *queue.Wish // assigned once
	waits bool        // it waits, or came to try; assigned once, before anybody else knows it

	granted  bool // it has the lock, or had it
	grant    queue.Grant
	tenant   queue.Tenant
	sent     bool       // a try was sent that may have left something
	doubtful bool       // Recheck was called before Begin: it may have had the lock before that, and no more
	unknown  bool       // a try was not answered
	placed   bool       // a try was answered by which it has a place there
	notAfter wire.Stamp // of the newest try that was not answered, or is on its way
}

// begin makes an attempt known, before anything of it is sent.
func (q *contest) begin(wish *queue.Wish) *attempt {
	c := q.contests
	hold := ""
	if c.kind.Hold != nil {
		hold = c.kind.Hold(c.session.ID())
	} else {
		hold = c.session.NewHoldIn(c.kind.Layout)
	}
	a := &attempt{queue: q, hold: hold + wish.Mark, wish: wish}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.attempts[a] = struct{}{}
	q.living++
	return a
}

// forget takes a off the books: nothing of it is on the server any more, or it ends by itself.
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

// outcome is what came of a try.
type outcome int

const (
	taken outcome = iota
	held
	late // executed after its not-after, or the answer took longer than the lease lasts
)

// answer is what a try was answered.
type answer struct {
	outcome outcome
	left    time.Duration // for how long the lock is held at the longest
}

// try sends one acquire.
func (a *attempt) try(ctx context.Context) (answer, error) {
	c := a.queue.contests
	waits := "0"
	if a.waits {
		waits = "1"
	}
	return a.send(ctx, c.kind.Acquire, slices.Concat([]string{c.verb(), a.queue.keys.Grants, waits}, c.kind.Args, a.wish.Args))
}

// send runs a script that may give a the lock.
func (a *attempt) send(ctx context.Context, script *scripts.Script, args []string) (answer, error) {
	s, keys := a.queue.contests.session, a.queue.keys
	if err := s.Meet(ctx, keys.Holder); err != nil {
		return answer{outcome: late}, err
	}
	sent := clock.Now()
	reply, err := s.Runner.Run(ctx, wire.Call{
		Script: script,
		Keys:   keys.All,
		Args:   append([]string{a.hold, wire.Milliseconds(a.wish.Life), a.toSend(sent).Text()}, args...),
	})
	if err != nil {
		a.unanswered(err)
		return answer{outcome: late}, err
	}
	return a.answered(reply, sent)
}

// toSend prepares one try, and answers its not-after.
func (a *attempt) toSend(sent clock.Instant) wire.Stamp {
	c := a.queue.contests
	notAfter := c.session.NotAfter(a.queue.keys.Slot, sent, a.wish.Life)
	c.mu.Lock()
	defer c.mu.Unlock()
	a.sent, a.notAfter = true, max(a.notAfter, notAfter)
	return notAfter
}

// unanswered takes the error of a try. A key of another program has nothing of a.
func (a *attempt) unanswered(err error) {
	a.queue.contests.mu.Lock()
	defer a.queue.contests.mu.Unlock()
	a.unknown = a.unknown || wire.Judge(err) == wire.Unknown
	a.sent = a.unknown || a.placed || !errors.Is(err, errs.ErrWrongKind)
}

// answered takes the answer to a try.
func (a *attempt) answered(reply wire.Reply, sent clock.Instant) (answer, error) {
	c, now := a.queue.contests, clock.Now()
	slot := a.queue.keys.Slot
	switch reply.Code() {
	case wire.Done:
		c.session.Clock.Told(slot, reply.Stamp(1), now)
		if clock.Deadline(sent, a.wish.Life).Reached(now) {
			return answer{outcome: late}, nil // over before it began; the next try lengthens it
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		a.granted = true
		a.grant = a.given(reply, sent, now)
		return answer{outcome: taken}, nil
	case wire.Undone:
		c.session.Clock.Told(slot, reply.Stamp(2), now)
		a.waited()
		a.nothingSent()
		return answer{held, time.Duration(reply.Int(1)) * time.Millisecond}, nil
	case wire.Late:
		c.session.Clock.Told(slot, reply.Stamp(1), now)
		a.nothingSent()
		return answer{outcome: late}, nil
	case wire.Foreign:
		a.nothingSent()
		return answer{outcome: held}, session.WrongKind(reply.Text(1))
	default:
		a.nothingSent()
		return answer{outcome: held}, c.kind.Refusal(reply)
	}
}

// given returns what the server gave by a reply to a try.
func (a *attempt) given(reply wire.Reply, sent, now clock.Instant) queue.Grant {
	stamp := reply.Stamp(1)
	grant := queue.Grant{Stamp: stamp, Last: stamp, Life: a.wish.Life, Sent: sent, Read: now}
	switch {
	case reply.Len() > 2:
		grant.Counted, grant.Token = true, uint64(max(reply.Int(2), 0)) //nolint:gosec // not negative
	case a.queue.contests.kind.Passes:
		grant.Last = stamp.ReservedEnd()
	}
	return grant
}

// waited takes note that a has a place on the server, if each waiter has one.
func (a *attempt) waited() {
	c := a.queue.contests
	c.mu.Lock()
	defer c.mu.Unlock()
	a.placed = c.kind.Each && a.waits
}

// nothingSent takes note that nothing is on the server, unless a copy of a try may come still, or a has a place
// there.
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
func (a *attempt) Begin(tenant queue.Tenant) {
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
func (a *attempt) Lengthened(life time.Duration, sent clock.Instant) {
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
	return reply.Code() != wire.Undone, nil
}

func (a *attempt) releaseCall() wire.Call {
	c, keys := a.queue.contests, a.queue.keys
	return wire.Call{Script: c.kind.Release, Keys: keys.All, Args: append([]string{a.hold, c.verb(), keys.Grants}, c.kind.Args...)}
}

// releaseUntil repeats the release off the caller's path until it is answered, and where a try is of unknown outcome
// until that can come no more.
func (a *attempt) releaseUntil(until clock.Instant) {
	t := &session.Settlement{Call: a.releaseCall(), Until: until, Arrives: a.arrives(), Over: func(error) { a.forget() }}
	t.Settled = func(reply wire.Reply) time.Duration {
		return t.Again(a.copyLeft(reply.Stamp(1)), a.wish.Life)
	}
	a.queue.contests.session.Settler.Settle(t)
}

// arrives returns until when a copy of a try may still come; zero if none can.
func (a *attempt) arrives() clock.Instant {
	a.queue.contests.mu.Lock()
	defer a.queue.contests.mu.Unlock()
	if !a.unknown {
		return clock.Instant{}
	}
	return clock.Now().Add(session.MaxPatience)
}

// copyLeft returns for how long a copy of a try may still come, where it is server o'clock; 0 is not at all.
func (a *attempt) copyLeft(server wire.Stamp) time.Duration {
	a.queue.contests.mu.Lock()
	defer a.queue.contests.mu.Unlock()
	if !a.unknown {
		return 0
	}
	return session.StillComing(a.notAfter, server)
}
