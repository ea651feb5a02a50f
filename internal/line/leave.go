// SPDX-License-Identifier: Apache-2.0

package line

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// Abandon leaves the line, or gives the lock back, off the caller's path: at once, and where a copy of
// the entering may still be on its way, once more when its not-after is over.
func (a *Attempt) Abandon() {
	if a.end() {
		a.leaveAgain()
	} else {
		a.forget()
	}
}

// end makes a be over, and reports whether it may have something on the server.
func (a *Attempt) end() (may bool) {
	a.q.lines.mu.Lock()
	defer a.q.lines.mu.Unlock()
	a.state, a.tenant = over, nil
	return a.unknown || a.stood || a.refused
}

// Release gives the lock back, and waits for that as long as ctx lasts. It reports false where the
// server says that the hold has the lock no more. An error leaves it to be repeated in the background,
// until the hold has ended by itself, after lasts at the latest.
func (a *Attempt) Release(ctx context.Context, lasts time.Duration) (had bool, err error) {
	// It is begun until the server answers: what a look still says of it is no reason to leave once
	// more, which might be executed first, and the release then hear that there is nothing to give back.
	a.Begin(nil)
	ls := a.q.lines
	reply, err := ls.session.Runner.Run(ctx, a.leaveCall())
	if err != nil && wire.TryAgain(err) {
		// The slot is on its way to another node. The lock at least can be let go of.
		reply, err = ls.session.Runner.Run(ctx, wire.Call{
			Script: ls.kind.Drop, Keys: []string{a.q.keys.Holder}, Args: []string{a.Name()},
		})
	}
	a.end()
	if err != nil {
		a.leaveUntil(clock.Now().Add(lasts))
		return false, err
	}
	a.handed(reply)
	if a.copyLeft(0) > 0 {
		a.leaveAgain()
	} else {
		a.forget()
	}
	return reply.Int(0) == 1, nil
}

func (a *Attempt) leaveCall() wire.Call {
	ls, keys, sure := a.q.lines, a.q.keys, strconv.Itoa(int(a.sure.Load()))
	return wire.Call{
		Script: ls.kind.Leave,
		Keys:   keys.All,
		Args:   []string{a.Name(), ls.session.ID(), ls.session.Publish(), keys.Grants, a.wish.Floor, sure},
	}
}

// leaveAgain repeats the leaving for as long as what a may have had can last.
func (a *Attempt) leaveAgain() {
	a.leaveUntil(clock.Now().Add(session.MaxPatience + max(a.wish.Life, lives*lookCeiling)))
}

// leaveUntil repeats the leaving off the caller's path until it is answered, and where an enter is of unknown
// outcome until that can come no more.
func (a *Attempt) leaveUntil(until clock.Instant) {
	t := &session.Settlement{Call: a.leaveCall(), Until: until, Arrives: a.arrives(), Over: a.givenUp}
	t.Settled = func(reply wire.Reply) time.Duration {
		a.handed(reply)
		left := a.copyLeft(reply.Stamp(1))
		if left == 0 {
			a.forget()
			return 0
		}
		t.Until = session.TakeBackUntil(left, a.wish.Life)
		return left
	}
	a.q.lines.session.Settler.Settle(t)
}

// copyLeft answers for how long a copy of the entering may still come, where it is server o'clock; 0 is
// not at all.
func (a *Attempt) copyLeft(server wire.Stamp) time.Duration {
	a.q.lines.mu.Lock()
	defer a.q.lines.mu.Unlock()
	if !a.unknown {
		return 0
	}
	return session.StillComing(a.notAfter, server)
}

// arrives returns until when a copy of the entering may still come; zero if none can. For an attempt that is over, of
// which unknown changes no more: callers may hold the lock of its Lines.
func (a *Attempt) arrives() clock.Instant {
	if !a.unknown {
		return clock.Instant{}
	}
	return clock.Now().Add(session.MaxPatience)
}

// givenUp ends the leaving, settled or not. Where it is not, and the session goes on in that line, its
// heartbeats would keep the ticket of a alive, before which others would wait for as long: it goes on. If the key
// belongs to another program the session sends no heartbeats either.
func (a *Attempt) givenUp(err error) {
	ls := a.q.lines
	ls.mu.Lock()
	isKnown := ls.mu.attempts[a.attempt()] == a
	goesOn := isKnown && a.q.users > 0 && ls.session.Ready() == nil && !errors.Is(err, errs.ErrWrongKind)
	if isKnown && !goesOn {
		a.forgetLocked()
	}
	ls.mu.Unlock()
	if goesOn {
		a.leaveAgain()
	}
}

// handed takes from the answer to a leave who of this session has the lock next.
func (a *Attempt) handed(reply wire.Reply) { a.q.lines.Handed(a.q.keys.Holder, reply) }

// Handed takes from the answer to a script that let somebody in, {_, _, grants, more}, which attempts of this session
// it was, and whether a look is due. A shorter one tells nothing.
func (ls *Lines) Handed(holder string, reply wire.Reply) {
	if reply.Len() < 4 {
		return
	}
	ls.granted(reply.Text(2))
	if reply.Int(3) == 1 {
		ls.lookAt(holder)
	}
}

// lookAt looks at a line at once, if somebody of this session waits in it.
func (ls *Lines) lookAt(holder string) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if q := ls.mu.queues[holder]; q != nil {
		ls.looks.Put(q)
	}
}
