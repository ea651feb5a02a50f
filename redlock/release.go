// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"time"

	"github.com/signalbox-go/signalbox/internal/acquire/local"
	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/renewal"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// tenure is the lock held by this process, from the vote to the release. It implements hold.Home.
//
// Exactly one of Vacated and Lost ends it: Vacated continues only if it stopped the term, and a stopped term
// does not report its end.
type tenure struct {
	hold.Hold

	lock   *Lock
	queue  *local.Queue
	ballot *ballot
}

// Vacated implements hold.Home: the last lease was unlocked.
func (n *tenure) OnRelease(now clock.Instant) error {
	if err := n.Term.Stop(now); err != nil {
		return err // it was lost before it could be released; Lost does the rest
	}
	defer n.over()
	n.lock.group.holds.remove(n)
	return n.release(n.Term.Deadline().Until(now))
}

// key returns the key of the lock.
func (n *tenure) key() string { return n.Term.Config().Key }

// over counts the hold out: its servers have nothing of it any more, or are not waited for any longer.
func (n *tenure) over() {
	n.queue.HoldEnded(request())
	n.lock.leave(n.queue)
}

// returned is what became of one server's part of a hold.
type returned struct {
	had bool // the server had it until now
	err error
}

// release releases the lock on all servers. It returns when a quorum is known to have had it until then, or
// known not to, or when patience is over, which left bounds. Calls without a reply by then continue in the
// background.
func (n *tenure) release(left time.Duration) error {
	l := n.lock
	n.ballot.release()
	back := make(chan returned, len(l.members))
	spread(l.members, func(i int, m *session.Session) {
		back <- n.releaseAt(i, m, left)
	})
	count := tally{n: len(l.members)}
	var failures []error
	for range l.members {
		r := <-back
		if r.err != nil {
			failures = append(failures, r.err)
			continue
		}
		count.add(r.had)
		switch count.verdict() {
		case carried:
			return nil
		case failed:
			return errs.ErrLostGone
		case open:
		}
	}
	// A renewal may have been executed as late as now.
	return l.base.Unconfirmed(clock.Now().Add(n.Term.Config().Life), errs.Join(failures...))
}

// releaseAt gives one server's part back. One that was silent until now is asked as well, behind the acquire; see
// ballot.released.
func (n *tenure) releaseAt(i int, m *session.Session, left time.Duration) returned {
	v := n.ballot.vote(i) // as it stood when the voting ended
	if v.choice == held || v.choice == refused {
		n.ballot.takeBack(i, v)
		return returned{}
	}
	if v.choice == silent && !n.ballot.isAsked(i) {
		return returned{} // nor will it be asked for the lock
	}
	ctx := m.PatientUnlock(left)
	reply, err := m.Runner.Run(ctx, n.ballot.releaseCall(i))
	ctx.End()
	had := err == nil && reply.Code() == wire.Done
	switch {
	case v.choice == silent:
		n.ballot.released(i, had)
	case err != nil || !had && v.choice == doubtful:
		n.ballot.settle(i, v.notAfter)
	default:
		n.ballot.gone(i)
	}
	return returned{had, n.lock.number(i, err)}
}

// Named implements hold.Namer.
func (n *tenure) Named(op string, err error) error { return n.lock.base.Named(op, err) }

// Lost implements hold.Home: the term ended under the holder. Some servers may still have the hold, also if a
// quorum does not: it is released, so that others need not wait until it expires.
func (n *tenure) OnLost(end renewal.End) {
	n.lock.base.LogLost(end)
	n.ballot.end()
	n.lock.group.holds.remove(n)
	n.over()
}
