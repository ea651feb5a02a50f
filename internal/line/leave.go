// SPDX-License-Identifier: Apache-2.0

package line

import (
	"context"
	"time"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/settle"
	"github.com/signalbox-go/signalbox/internal/stamp"
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

// end makes a be over, and reports whether anything of it was ever sent.
func (a *Attempt) end() (sent bool) {
	a.q.lines.mu.Lock()
	defer a.q.lines.mu.Unlock()
	a.state, a.tenant = over, nil
	return a.notAfter != 0
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
			Script: ls.scripts.Drop, Keys: []string{a.q.keys.Holder}, Args: []string{a.hold},
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
	ls, keys := a.q.lines, a.q.keys
	return wire.Call{
		Script: ls.scripts.Leave,
		Keys:   []string{keys.Holder, keys.Line, keys.Lives},
		Args:   []string{a.hold, ls.session.ID(), ls.session.Publish(), keys.Grants},
	}
}

// leaveAgain repeats the leaving for as long as what a may have had can last.
func (a *Attempt) leaveAgain() {
	a.leaveUntil(clock.Now().Add(session.MaxPatience + max(a.life, lives*lookCeiling)))
}

// leaveUntil repeats the leaving off the caller's path until it is answered, and where an enter is of unknown
// outcome until that can come no more.
func (a *Attempt) leaveUntil(until clock.Instant) {
	t := &settle.Settlement{Call: a.leaveCall(), Until: until, Over: a.givenUp}
	t.Settled = func(reply wire.Reply) time.Duration {
		a.handed(reply)
		left := a.copyLeft(reply.Stamp(1))
		if left == 0 {
			a.forget()
			return 0
		}
		t.Until = clock.Now().Add(min(left, session.MaxApart) + a.life)
		return left
	}
	a.q.lines.session.Settler.Settle(t)
}

// copyLeft answers for how long a copy of the entering may still come, where it is server o'clock; 0 is
// not at all.
func (a *Attempt) copyLeft(server stamp.Stamp) time.Duration {
	a.q.lines.mu.Lock()
	defer a.q.lines.mu.Unlock()
	if !a.unknown || server > a.notAfter {
		return 0
	}
	return time.Duration(a.notAfter-server)*time.Microsecond + 2*time.Millisecond
}

// givenUp ends the leaving, settled or not. Where it is not, and the session goes on in that line, its
// heartbeats keep the ticket of a alive: a stays known, and is given back when it is granted.
func (a *Attempt) givenUp() {
	ls := a.q.lines
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.mu.attempts[a.attempt()] != a {
		return
	}
	if q := ls.mu.queues[a.q.keys.Holder]; q != nil {
		q.ghosts = append(q.ghosts, a)
		return
	}
	a.forgetLocked()
}

// handed takes from the answer to a leave who has the lock next.
func (a *Attempt) handed(reply wire.Reply) {
	ls := a.q.lines
	if reply.Int(0) != 1 {
		return
	}
	if next := reply.Text(2); len(next) > attemptSize && next[:len(next)-attemptSize] == ls.session.ID() {
		ls.granted(next[len(next)-attemptSize:], reply.Stamp(3), reply.Text(4))
	}
	if reply.Int(5) == 1 {
		ls.lookAt(a.q.keys.Holder)
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
