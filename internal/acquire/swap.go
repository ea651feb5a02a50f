// SPDX-License-Identifier: Apache-2.0

package acquire

import (
	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/scripts"
)

// Swap ends the hold of lease, which is to be its only entry and bound to nothing, and returns the first lease of a
// hold by the wish of l, which script put in its place in one step: with a term of its own, but for an end that the old
// one had. It waits for that as long as the old hold lasts. Where it fails both are given back in the background.
func (l *Lock) Swap(lease hold.Lease, script *scripts.Script) (hold.Lease, error) {
	n, is := lease.Home().(*held)
	if !is {
		return hold.Lease{}, errs.ErrNotHeld
	}
	now := clock.Now()
	if err := n.Term.Stop(now); err != nil {
		return hold.Lease{}, err // it was lost before; Lost sees to the rest
	}
	patience := l.Base.Session.Patient(n.Term.Deadline().Until(now))
	defer patience.End()
	wish, until := *l.Wish, n.Term.Terms().Until
	wish.Life = max(wish.Life, n.Term.Given()) // it is no shorter either, if it was renewed
	if !until.IsZero() {
		wish.Life = min(wish.Life, until.Until(now)) // it is no longer for having been divided
	}
	a, err := n.attempt.Swap(patience, script, &wish)
	if err != nil {
		n.attempt.Abandon()
		n.over()
		return hold.Lease{}, errs.Join(errs.ErrLost, err)
	}
	n.leaveLocal()
	return l.start(n.queue, a, until), nil // which takes the place of n in the session and in the line
}
