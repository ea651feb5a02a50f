// SPDX-License-Identifier: Apache-2.0

package tenure

import (
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/line"
	"github.com/signalbox-go/signalbox/internal/session"
)

// tenure is the lock held by this process, from the grant to the release. It is the hold's home.
//
// Exactly one of Vacated and Lost ends it: Vacated goes on only where it stopped the term, and
// a term that was stopped tells nobody that it ended.
type tenure struct {
	hold.Hold

	lock    *Lock
	queue   *line.Queue
	attempt *line.Attempt
	lasts   time.Duration // for how long the server may keep the hold after a renewal, or after the grant
}

// Vacated implements hold.Home: the last lease was unlocked.
func (n *tenure) Vacated(now clock.Instant) error {
	if err := n.Term.Stop(now); err != nil {
		return err // it was lost before it could be given back; Lost sees to the rest
	}
	// A renewal may have been executed as late as now: the hold ends after lasts at the latest.
	patience := n.lock.Base.Session.Patient(min(session.UnlockPatience, n.Term.Deadline().Until(now)))
	defer patience.End()
	defer n.over()
	had, err := n.attempt.Release(patience, n.lasts)
	switch {
	case err != nil:
		return &signalbox.UnconfirmedError{KeyEnds: clock.Now().Add(n.lasts).Time(), Err: err}
	case !had:
		return errs.ErrLost
	}
	return nil
}

// Lost implements hold.Home: the term ended under the holder. Where the hold may be there still
// it is given back, so that the next in line need not wait for its end.
func (n *tenure) Lost(error, bool) {
	n.attempt.Abandon()
	n.over()
}

func (n *tenure) over() {
	n.lock.leave(n.queue)
	if n.lock.Over != nil {
		n.lock.Over()
	}
}

// Evict implements line.Tenant.
func (n *tenure) Evict(cause error) { n.Term.Break(cause, false) }

// Recheck implements line.Tenant.
func (n *tenure) Recheck() { n.Term.Recheck() }
