// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
)

// learnsOfWaiter lets a holder learn that another process waits: by a message, or, if that is lost, by its next renewal or as soon as it is
// subscribed again. A try, a waiter of its own process and a dead one do not. It keeps its lease.
func learnsOfWaiter(w *World, k Kind) {
	if w.Virtual { // without a waiter it costs what any lock does
		p := w.Process(k, signalbox.WithWanted())
		w.Unlocks(w.Holds(p, "cost"))
		p.Arm(0, None)
		h := w.Holds(p, "cost")
		w.Arrive()
		w.Unlocks(h)
		require.LessOrEqual(w, len(p.Requests()), k.RoundTrips, "%q", p.Requests())
	}
	for name, c := range map[string]struct {
		lease  time.Duration
		misses bool // the message
		cuts   bool // the subscription
		dead   bool // a process died that waited first
	}{
		"by message": {lease: w.Life}, "by renewal": {lease: 3 * time.Second, misses: true}, "when subscribed": {lease: 30 * time.Second, misses: true, cuts: true},
		"behind a dead waiter": {lease: 3 * time.Second, dead: true},
	} {
		if c.dead && !w.Virtual {
			continue
		}
		a, b := w.Process(k, signalbox.WithRenewedLease(c.lease), signalbox.WithWanted()), w.Rival(k)
		if c.dead {
			w.diesWaiting(b, k, name)
		}
		lease, err := a.Lock(name).Lock(w.Context())
		require.NoError(w, err)
		wanted := lease.(interface{ Wanted() <-chan struct{} }).Wanted()
		w.Arrive()
		w.tryWaits(b, name)
		own := w.Waits(w.Context(), a, name)
		time.Sleep(2 * time.Second) // it was renewed
		requireUnwanted(w, wanted)
		a.LoseMessages(c.misses)
		other := w.Waits(w.Context(), b, name)
		if c.cuts {
			requireUnwanted(w, wanted)
			a.CutSubscriptions()
		}
		select {
		case <-wanted:
		case <-time.After(5 * time.Second):
			require.Fail(w, "the holder does not learn of the waiter", name)
		}
		a.LoseMessages(false)
		require.NoError(w, lease.Err())
		require.Empty(w, other)
		require.NoError(w, lease.Unlock())
		all := merged([]waiter{own, other})
		for range 2 {
			w.Unlocks(w.Gets(all, time.Second))
		}
	}
}

// diesWaiting leaves the ticket of a process behind that has died, of a lock that p held.
func (w *World) diesWaiting(p *Process, k Kind, name string) {
	w.Helper()
	h, dead := w.Holds(p, name), w.Process(k)
	w.Waits(w.Context(), dead, name)
	dead.Silence()
	time.Sleep(5 * time.Second)
	w.Unlocks(h)
}

func requireUnwanted(w *World, wanted <-chan struct{}) {
	w.Helper()
	select {
	case <-wanted:
		require.Fail(w, "the holder believes that another process waits")
	default:
	}
}
