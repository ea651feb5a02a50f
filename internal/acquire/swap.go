// SPDX-License-Identifier: Apache-2.0

package acquire

import (
	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/scripts"
)

// Swap ends the hold of lease and returns the first lease of a hold with the request of l, by which script replaced
// it in one step. The lease must be the only entry of its hold and bound to nothing but an observed call. The new hold
// has a term of its own, but keeps an end that the old one had. Swap waits as long as the old hold lasts. If
// it fails, both holds are released in the background.
func (l *Acquirer) Swap(lease hold.Lease, script *scripts.Script) (hold.Lease, error) {
	h, is := lease.Owner().(*heldLock)
	if !is {
		return hold.Lease{}, errs.ErrNotHeld
	}
	now := clock.Now()
	if err := h.Term.Stop(now); err != nil {
		return hold.Lease{}, err // it was lost before; Lost does the rest
	}
	patience := l.Base.Session.Patient(h.Term.Deadline().Until(now))
	defer patience.End()
	request, until := *l.Request, h.Term.Config().Until
	request.Life = max(request.Life, h.Term.Given()) // it is no shorter either, if it was renewed
	if !until.IsZero() {
		request.Life = min(request.Life, until.Until(now)) // it is no longer for having been divided
	}
	a, err := h.serverHold.Swap(patience, script, &request)
	if err != nil {
		h.serverHold.Abandon()
		h.finish()
		err = errs.Join(errs.ErrLostGone, err)
		lease.ReplaceFailed(err)
		return hold.Lease{}, err
	}
	h.leaveLocal()
	next := l.startHold(h.queue, a, until, 0) // which replaces n in the session and in the queue
	next.Replace(lease)
	return next, nil
}
