// SPDX-License-Identifier: Apache-2.0

package walks_test

import "slices"

// end checks that the name becomes usable again after everything that happened: all sessions are
// gone, and none of their requests is on its way.
func (w *walk) end() {
	w.Helper()
	w.late, w.unsubscribed, w.calm, w.ends = nil, nil, w.now+1, true
	for _, a := range w.attempts {
		a.ended = true
	}
	// By the clock: a hold that was given before the clock was set back ends when it has caught up.
	deadline := w.high + longestLease + 15*second + w.scene.patience
	if w.IntN(2) == 0 {
		w.note("all are gone, and sessions wait")
		w.endsForWaiters(deadline)
		return
	}
	w.note("all are gone, and a newcomer arrives after the longest lease")
	w.passes(deadline - w.scene.patience - w.clock)
	for _, k := range w.kinds {
		a := w.attempt(k, sessionOf(10), k.newcomer)
		w.send(k.requestOf(tries, a))
		a.ended = true
		w.send(k.requestOf(withdraws, a))
	}
	w.passes(w.scene.patience)
	w.endsForNewcomers()
}

// endsForNewcomers checks that an attempt of each kind gets the lock at once.
func (w *walk) endsForNewcomers() {
	w.Helper()
	for _, k := range w.kinds {
		for _, v := range []verb{tries, enters} {
			a := w.fresh(k)
			r := k.requestOf(v, a)
			got := w.probe([]*request{r})[0]
			if got.err != "" || len(r.read(r, got.reply).has) == 0 {
				w.fail("%s does not get the free lock: %v %s", r.script.Name, got.reply, got.err)
			}
		}
	}
}

// endsForWaiters checks that one of several waiters, of each kind two, gets the lock in time.
func (w *walk) endsForWaiters(deadline int64) {
	w.Helper()
	var waiters []*attempt
	for n := range 2 {
		for _, k := range w.kinds {
			waiters = append(waiters, w.attempt(k, sessionOf(10+n), k.newcomer))
		}
	}
	for _, a := range waiters {
		w.send(a.kind.requestOf(enters, a))
	}
	for w.clock <= deadline {
		for _, a := range waiters {
			if a.issued > 0 {
				return
			}
			w.wait(a)
		}
		w.passes(second + w.scene.patience/400)
	}
	w.fail("no waiter gets the lock")
}

// wait is what a waiter does once a second: it polls, and acquires again if it has no ticket.
func (w *walk) wait(a *attempt) {
	w.Helper()
	poll := a.kind.requestOf(polls, a)
	if !slices.Contains(a.kind.verbs(), heartbeats) || poll == nil {
		w.send(a.kind.requestOf(enters, a))
		return
	}
	for range 100 { // as long as there is more to do
		if o := w.send(poll); !o.more {
			if slices.Contains(o.missing, a.hold) && a.issued == 0 {
				w.send(a.kind.requestOf(enters, a))
			}
			return
		}
	}
	w.fail("a poll is due at once, and again, and again")
}
