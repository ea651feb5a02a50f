// SPDX-License-Identifier: Apache-2.0

package acquire

import (
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/scripts"
)

// Swap ends the hold of lease and returns the first lease of a hold with the request of a, by which script replaced
// it in one step. The lease must be the only entry of its hold and bound to nothing but an observed call. The new hold
// has a term of its own, but keeps an end that the old one had. Swap waits as long as the old hold lasts. If
// it fails, both holds are released in the background.
func (a *Acquirer) Swap(lease hold.Lease, script *scripts.Script) (hold.Lease, error) {
	h, is := lease.Owner().(*heldLock)
	if !is {
		return hold.Lease{}, errs.ErrNotHeld
	}
	now := timers.Now()
	if err := h.Term.Stop(now); err != nil {
		return hold.Lease{}, err // it was lost before; OnLost does the rest
	}
	patience := a.Base.Session.Patient(h.Term.Deadline().Until(now))
	defer patience.End()
	request, until := *a.Request, h.Term.Config().Until
	request.Life = max(request.Life, h.Term.Given()) // the new hold is no shorter either, if the old one was renewed
	if !until.IsZero() {
		request.Life = min(request.Life, until.Until(now)) // the new hold lasts no longer than the old one would have
	}
	next, err := h.serverHold.Swap(patience, script, &request)
	if err != nil {
		h.serverHold.Abandon()
		h.finish()
		err = errs.Join(errs.ErrLostGone, err)
		lease.ReplaceFailed(err)
		return hold.Lease{}, err
	}
	h.leaveLocal()
	q := a.Manager.LocalQueues.Use(a.Names.Holder)
	defer q.Done(a.Names.Holder)
	replaced := a.startHold(new(heldLock), q, next, until, 0) // which the session counts in the place of h
	replaced.Replace(lease)
	return replaced, nil
}
