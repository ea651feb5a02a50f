// SPDX-License-Identifier: Apache-2.0

package tenure

import (
	"context"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/relay"
	"github.com/signalbox-go/signalbox/internal/session"
)

// tenure is the lock held by this process, from the grant to the release. It is the hold's home.
//
// Exactly one of Vacated and Lost ends it: Vacated goes on only where it stopped the term, and
// a term that was stopped tells nobody that it ended.
type tenure struct {
	hold.Hold

	lock    *Lock
	queue   Queue
	attempt Attempt
	lasts   time.Duration // for how long the server may keep the hold after a renewal, or after the grant

	relay *relay.Relay // where others wait that it is passed on to; nil where it is not
	// since is when the server granted it, or said that it may go on. Written by whoever begins or vacates the tenure,
	// one after the other: the relay's lock is between them.
	since clock.Instant
}

// Vacated implements hold.Home: the last lease was unlocked.
func (n *tenure) Vacated(now clock.Instant) error {
	if n.relay != nil {
		switch n.relay.Pass(now, n.lock.Wish.Like, n) {
		case relay.Passed:
			return nil
		case relay.Refused:
			return n.yield(now)
		case relay.Unwanted:
		}
	}
	patience := n.patience(now)
	defer patience.End()
	return n.releaseWithin(patience, now, errs.ErrLost)
}

// releaseWithin gives the hold back, and waits for that as long as patience lasts. gone is the answer where the server
// says that the hold has nothing any more.
func (n *tenure) releaseWithin(patience context.Context, now clock.Instant, gone error) error {
	if err := n.Term.Stop(now); err != nil {
		return err // it was lost before it could be given back; Lost sees to the rest
	}
	defer n.over()
	// A renewal may have been executed as late as now: the hold ends after lasts at the latest.
	had, err := n.attempt.Release(patience, n.lasts)
	switch {
	case err != nil:
		return &signalbox.UnconfirmedError{KeyEnds: clock.Now().Add(n.lasts).Time(), Err: err}
	case !had:
		return gone
	}
	return nil
}

// patience answers how long a call about this hold is waited for.
func (n *tenure) patience(now clock.Instant) *session.Patience {
	return n.lock.Base.Session.PatientUnlock(n.Term.Deadline().Until(now))
}

// Lost implements hold.Home: the term ended under the holder. Where the hold may be there still
// it is given back, so that the next in line need not wait for its end.
func (n *tenure) Lost(error, bool) {
	n.attempt.Abandon()
	n.over()
}

func (n *tenure) over() {
	n.leaveRelay()
	n.lock.leave(n.queue)
	if n.lock.Over != nil {
		n.lock.Over()
	}
}

// leaveRelay counts the hold out of where it is passed on.
func (n *tenure) leaveRelay() {
	if n.relay != nil {
		n.lock.Kind.Passing.Relays.Done(n.relay)
	}
}

// Evict implements line.Tenant.
func (n *tenure) Evict(cause error) { n.lock.Base.Evict(&n.Hold, cause) }

// Recheck implements line.Tenant.
func (n *tenure) Recheck() { n.Term.Recheck() }
