// SPDX-License-Identifier: Apache-2.0

package reentrant

import (
	"context"
	"errors"
	"time"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/dispatch"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/gate"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/renewal"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/wire"
)

func (l *Lock) lock(ctx context.Context) (hold.Lease, error) {
	lease, carried, err := l.enter(ctx)
	if carried || err != nil {
		return lease, err
	}
	if err = l.base.Session.Begin(); err != nil {
		return hold.Lease{}, err
	}
	g := l.realm.Gates.Use(l.base.Names.Holder)
	lease, err = l.queue(ctx, g)
	if err != nil {
		l.leave(g, clock.Now())
	}
	return lease, err
}

// queue waits for the turn of the caller at the gate and contends when it comes, unless the
// hold is passed to it.
func (l *Lock) queue(ctx context.Context, g *gate.Gate) (hold.Lease, error) {
	turn, err := l.turn(ctx, g)
	switch {
	case err != nil:
		return hold.Lease{}, err
	case turn.Passed:
		return turn.Lease, nil
	}
	return l.contend(ctx, g)
}

// turn waits for the turn of the caller at the gate: it is the contender then, unless the hold is passed to it.
func (l *Lock) turn(ctx context.Context, g *gate.Gate) (gate.Turn, error) {
	w := l.base.Session.Waiter()
	defer l.base.Session.Waited(w) // it is in no queue on return, and its Turn is empty
	w.Accepts = l.passable()
	if g.Join(w) {
		return gate.Turn{}, nil
	}
	return l.await(ctx, g, w)
}

// await waits for the turn of w.
func (l *Lock) await(ctx context.Context, g *gate.Gate, w *gate.Waiter) (gate.Turn, error) {
	// Close sets closing and then sends the queue away: it finds w there, or w finds it set.
	err := l.base.Session.Ready()
	if err == nil {
		select {
		case turn := <-w.Turn:
			return turn, turn.Err
		case <-ctx.Done():
			err = errs.Ended(ctx)
		}
	}
	left, held := g.Leave(w)
	switch {
	case !left:
		// The turn was given in the same instant. It is taken: a lease is the caller's then, whose
		// context ends the waiting and not the hold; a contender finds the context ended.
		turn := <-w.Turn
		return turn, turn.Err
	case held && ctx.Err() != nil:
		return gate.Turn{}, errs.WhileHeld(err)
	}
	return gate.Turn{}, err
}

// passable answers the terms of the holds that a waiter of this lock can take over: its own, and
// none where the time counts from the acquire.
func (l *Lock) passable() gate.Terms {
	if l.base.Set.Fixed || l.base.Set.MaxHold > 0 {
		return gate.Terms{}
	}
	return gate.Terms{Life: l.base.Set.Lease, Replicas: l.base.Replicas.Count}
}

// leave counts a call that failed, or a hold that is over, out of the gate and the session.
func (l *Lock) leave(g *gate.Gate, now clock.Instant) {
	l.base.Session.End()
	if l.realm.Gates.Done(g, now) {
		l.base.Session.SweepGate(l.realm, g, gate.StandBack)
	}
}

func (l *Lock) tryLock(ctx context.Context) (hold.Lease, error) {
	lease, carried, err := l.enter(ctx)
	if carried || err != nil {
		return lease, err
	}
	if err = l.base.Session.Begin(); err != nil {
		return hold.Lease{}, err
	}
	g := l.realm.Gates.Use(l.base.Names.Holder)
	if !g.Try() {
		l.leave(g, clock.Now())
		return hold.Lease{}, errs.ErrHeld
	}
	return l.tryAt(ctx, g)
}

// tryAt takes the lock if the server has it free, as the contender of g, and leaves g if not.
func (l *Lock) tryAt(ctx context.Context, g *gate.Gate) (lease hold.Lease, err error) {
	var t try
	for range 2 { // the second where the server's clock had to be learnt anew
		if t, err = l.try(ctx, ""); err != nil || t.result != late {
			break
		}
	}
	if err == nil && t.result == taken {
		if lease, err = l.begin(g, t); err == nil {
			return lease, nil
		}
	}
	g.Quit()
	l.leave(g, clock.Now())
	switch {
	case err != nil && ctx.Err() != nil && !errors.Is(err, errs.ErrClosed):
		return hold.Lease{}, errs.Ended(ctx)
	case err != nil:
		return hold.Lease{}, err
	case t.result == late:
		return hold.Lease{}, errLate
	}
	return hold.Lease{}, errs.ErrHeld
}

// errLate is the error of a try that found the server too slow twice.
var errLate = errors.New("the server took longer than the lease lasts")

// contend takes the lock at the server, as the only goroutine of the process that tries to.
func (l *Lock) contend(ctx context.Context, g *gate.Gate) (hold.Lease, error) {
	c := contention{lock: l}
	defer c.close()
	if pause := g.StandBack(clock.Now()); pause > 0 {
		// The lock was given to a waiter elsewhere, which is on its way to it.
		c.follow(l.base.Session.Dispatch.StandBack(l.target(), pause))
		if err := c.pause(ctx); err != nil {
			g.Quit()
			return hold.Lease{}, err
		}
	} else {
		c.follow(l.base.Session.Dispatch.WaitIfLive(l.target()))
	}
	for {
		err := l.base.Session.Ready()
		if err == nil && ctx.Err() != nil {
			err = c.ended(ctx)
		}
		if err == nil {
			var t try
			t, err = l.try(ctx, l.mark)
			if err == nil && t.result == taken {
				var lease hold.Lease
				if lease, err = l.begin(g, t); err == nil {
					return lease, nil
				}
			}
			g.Heard(err == nil && t.result == held)
			err = c.next(ctx, t, err)
		}
		if err != nil {
			g.Quit()
			return hold.Lease{}, err
		}
	}
}

// contention is what a contender knows between its tries.
type contention struct {
	lock *Lock
	wait *dispatch.Wait // nil until there is something to wait for
	last wire.LastReply
}

func (c *contention) register() *dispatch.Wait {
	if c.wait == nil {
		c.follow(c.lock.base.Session.Dispatch.Wait(c.lock.target()))
	}
	return c.wait
}

// follow registers the contender with w, if there is one.
func (c *contention) follow(w *dispatch.Wait) {
	if c.wait = w; w != nil {
		c.last.Follow(w)
	}
}

func (c *contention) close() {
	if c.wait != nil {
		c.wait.Close()
	}
}

// next takes what a try ended with and returns when the next is due, or the error to give up
// with.
func (c *contention) next(ctx context.Context, t try, err error) error {
	if err == nil && t.result == held {
		c.last.Held()
		c.register().Held(t.left)
		return c.pause(ctx)
	}
	if err = c.last.Take(ctx, err); err != nil {
		return err
	}
	c.register().After(session.RetryPause(c.last.Fails))
	c.last.Fails++
	return c.pause(ctx)
}

// pause waits for the next wake-up.
func (c *contention) pause(ctx context.Context) error {
	select {
	case <-c.wait.C:
		return nil
	case <-ctx.Done():
		return c.ended(ctx)
	}
}

// ended answers the error of a context that has ended, with what is known of the lock.
func (c *contention) ended(ctx context.Context) error { return c.last.Ended(ctx) }

// result is what an acquire script answered.
type result int

const (
	taken result = iota
	held
	late
)

// try is one acquire, answered.
type try struct {
	result result
	hold   string
	stamp  wire.Stamp    // that the key has
	token  uint64        // the first of those that are the hold's
	last   uint64        // and the last
	left   time.Duration // until the holder's key ends
	sent   clock.Instant
	read   clock.Instant // when the answer was
	// notAfter is the server's time later than which it does nothing.
	notAfter wire.Stamp
}

// try sends one acquire under a hold id of its own. Where it does not learn the outcome it
// takes the acquire back, off the caller's path.
func (l *Lock) try(ctx context.Context, mark string) (try, error) {
	s := l.base.Session
	if err := s.Meet(ctx, l.base.Names.Holder); err != nil {
		return try{}, err
	}
	t := try{hold: s.NewHoldIn(l.base.Layout), sent: clock.Now()}
	t.notAfter = s.NotAfter(l.base.Slot, t.sent, l.base.Set.Life())
	reply, shortfall, err := l.acquire(ctx, t.hold+s.Tail(), l.lifeMS, t.notAfter.Text(), mark)
	if err != nil {
		if wire.Judge(err) == wire.Unknown {
			l.withdraw(t.hold, t.notAfter)
		}
		return try{}, err
	}
	if err = l.read(&t, reply); err != nil {
		return try{}, err
	}
	if t.result == taken && shortfall != nil {
		l.undo(t.hold) //nolint:contextcheck // also where the caller's has ended
		return try{}, shortfall
	}
	return t, nil
}

// numbered answers the token that is a number of a counter.
func numbered(n int64) uint64 { return uint64(max(n, 0)) } //nolint:gosec // not negative

// reserved takes the tokens of so many microseconds.
func (t *try) reserved(from wire.Stamp, micros int64) {
	t.stamp, t.token, t.last = from, from.Token(), (from + wire.Stamp(micros)).Token()
}

// read takes in what the server answered to a try. One that was granted the lock for a time that is over takes it
// back.
func (l *Lock) read(t *try, reply wire.Reply) error {
	now := reply.Stamp(0)
	if now != 0 {
		t.reserved(now, wire.TokenBlock)
	} else {
		switch reply.Int(0) {
		case 2:
			t.token = numbered(reply.Int(1))
			t.last, now = t.token, reply.Stamp(2)
		case 1:
			t.reserved(reply.Stamp(1), reply.Int(2))
			now = reply.Stamp(3)
		case 0:
			t.result, t.left, now = held, time.Duration(reply.Int(1))*time.Millisecond, reply.Stamp(2)
		case -1:
			t.result, now = late, reply.Stamp(1)
		default:
			return session.WrongKind(reply.Text(1))
		}
	}
	t.read = clock.Now()
	l.base.Session.Clock.Told(l.base.Slot, now, t.read)
	if t.result == taken && renewal.Deadline(t.sent, l.base.Set.Life()).Reached(t.read) {
		// Its answer took longer than the lease lasts: it would be over before it began.
		l.withdraw(t.hold, t.notAfter)
		t.result = late
	}
	return nil
}

// withdrawal answers the call that takes an acquire back.
func (l *Lock) withdrawal(holdID string) wire.Call {
	return wire.Call{
		Script: l.scripts.Withdraw,
		Keys:   l.keys(),
		Args:   []string{holdID, l.verb(), l.base.Names.Unlocked, l.base.Floor},
	}
}

// withdraw takes back an acquire of unknown outcome: at once, and where that does not settle it,
// because the acquire may still be on its way, once more when its not-after is over.
func (l *Lock) withdraw(holdID string, notAfter wire.Stamp) {
	t := &session.Settlement{
		Call:  l.withdrawal(holdID),
		Until: clock.Now().Add(session.MaxPatience + l.base.Set.Life()),
	}
	if notAfter != 0 {
		t.Arrives = clock.Now().Add(session.MaxPatience)
	}
	t.Settled = func(reply wire.Reply) time.Duration {
		left := session.StillComing(notAfter, reply.Stamp(1))
		if reply.Int(0) == 1 || left == 0 {
			return 0 // it was sent once: gone is gone
		}
		t.Until = session.TakeBackUntil(left, l.base.Set.Life())
		return left
	}
	l.base.Session.Settler.Settle(t)
}

// begin makes the hold that the server granted, or takes it back where the session closed
// meanwhile.
func (l *Lock) begin(g *gate.Gate, t try) (hold.Lease, error) {
	if err := l.base.Session.Ready(); err != nil {
		l.withdraw(t.hold, 0)
		return hold.Lease{}, err
	}
	n := &tenure{lock: l, gate: g, stamp: t.stamp}
	lease := n.Begin(n, &l.realm.Realm, t.token, t.last)
	terms := renewal.Terms{
		Script: l.scripts.Renew, Key: l.base.Names.Holder, Hold: t.hold, Life: l.base.Set.Lease, Renewed: !l.base.Set.Fixed,
	}
	if l.base.Set.MaxHold > 0 {
		terms.Until = t.sent.Add(l.base.Set.MaxHold)
	}
	n.Term.Init(l.base.Session.Keeper, &n.Hold, terms, l.base.Set.Life(), t.sent)
	// The gate before the start: a term that is over already ends at once, and tells the gate.
	g.Won(t.read, n)
	n.Term.Start(t.sent, l.base.Set.Life())
	if err := l.base.Session.Evicted(); err != nil {
		n.Term.Break(err, false)
	}
	return lease, nil
}
