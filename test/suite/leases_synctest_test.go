// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// leaseEndsBeforeHold cuts a holder off. Its lease ends while the server still has the hold, and the waiter gets the lock when
// that has ended, too.
func leaseEndsBeforeHold(w *World, k Kind) {
	a, b := w.Process(k), w.Rival(k)
	h := w.Holds(a, "a")
	time.Sleep(w.Life / 2) // it has its whole lease
	require.NoError(w, h.Err())
	waiting := w.Waits(w.Context(), b, "a")
	a.Silence()
	cut := time.Now()
	<-h.Done()
	require.GreaterOrEqual(w, time.Since(cut), k.survives(w.Life)-w.Grace)
	require.LessOrEqual(w, time.Since(cut), w.Life*49/50+w.Grace)
	if w.Virtual { // between the two there are milliseconds
		held, _ := w.Keys(b, "a")
		require.NotEmpty(w, held, "the hold ended before its lease")
		require.Empty(w, waiting)
	}
	next := w.Gets(waiting, w.Life+2*time.Second-time.Since(cut))
	w.Rises(k, h, next)
	w.Lost(h)
	w.Unlocks(next)
}

// renewalReportsLoss deletes the keys of a holder. The next renewal reports it, and extends no hold of the next holder.
func renewalReportsLoss(w *World, k Kind) {
	a, b := w.Process(k), w.Rival(k)
	h := w.Holds(a, "a")
	time.Sleep(w.Life / 10)
	w.Forget(b, "a")
	gone := time.Now()
	next := w.Holds(b, "a")
	<-h.Done()
	require.LessOrEqual(w, time.Since(gone), w.Life/3+w.Grace)
	w.Lost(h)
	time.Sleep(w.Life * 2 / 3)
	w.Unlocks(next)
}

// renewedForHours holds a lock through many leases, with three renewals a lease.
func renewedForHours(w *World, k Kind) {
	a, b := w.Process(k), w.Rival(k)
	h := w.Holds(a, "a")
	for range redistest.Rounds(2, 50) {
		time.Sleep(3*time.Minute + 7*time.Second)
		require.NoError(w, h.Err())
		require.Positive(w, time.Until(h.Deadline()))
	}
	a.Arm(0, None)
	leases := redistest.Rounds(10, 40)
	time.Sleep(time.Duration(leases) * w.Life)
	least, most := 3*leases-2, 5*leases*max(k.Members, 1)
	renewals := len(a.Requests())
	require.True(w, least <= renewals && renewals <= most, "%d renewals in %d leases", renewals, leases)
	w.Held(b, "a")
	time.Sleep(5 * time.Second)
	w.Unlocks(h)
	w.Free(b, "a")
}

// outage makes the server unreachable in two ways, for nearly as long as a hold survives. Holder and waiter outlive it.
func outage(w *World, k Kind) {
	for i, begins := range []func(x *Wire){(*Wire).Silence, (*Wire).Refuse} {
		a, b := w.Process(k), w.Rival(k)
		name := fmt.Sprint(i)
		h := w.Holds(a, name)
		time.Sleep(w.Life)
		waiting := w.Waits(w.Context(), b, name)
		for _, p := range []*Process{a, b} {
			begins(p.Wire)
		}
		time.Sleep(k.survives(w.Life) - time.Second)
		require.NoError(w, h.Err())
		for _, p := range []*Process{a, b} {
			p.Heal()
		}
		time.Sleep(w.Life)
		require.Empty(w, waiting)
		w.Unlocks(h)
		w.Unlocks(w.Gets(waiting, 1050*time.Millisecond))
		a.End()
		b.End()
	}
}

// firstLease lets a holder die at once: the next one has the lock within four seconds. A holder that lives gets its whole lease from
// the first renewal.
func firstLease(w *World, k Kind) {
	a, b := w.Process(k), w.Rival(k)
	h := w.Holds(a, "a")
	require.LessOrEqual(w, time.Until(h.Deadline()), 3*time.Second)
	a.Silence()
	next := w.Gets(w.Waits(w.Context(), b, "a"), 4*time.Second)
	w.Rises(k, h, next)
	w.Lost(h)
	time.Sleep(1100 * time.Millisecond)
	require.Greater(w, time.Until(next.Deadline()), w.Life/2)
	w.Unlocks(next)
}

// wallClock sets the wall clock of all processes back, and forward by less than a lease: nothing is lost. Then it is set
// forward by more: the lease is lost at once.
func wallClock(w *World, k Kind) {
	defer clock.Skew(0)
	for _, leases := range []float64{-1, .1, 2} {
		clock.Skew(0)
		a, b := w.Process(k), w.Rival(k)
		name := fmt.Sprint(leases)
		h := w.Holds(a, name)
		time.Sleep(w.Life / 2)
		waiting := w.Waits(w.Context(), b, name)
		clock.Skew(time.Duration(leases * float64(w.Life)))
		if leases > 1 {
			require.ErrorIs(w, h.Err(), signalbox.ErrLost)
			w.Lost(h)
			w.Unlocks(w.Gets(waiting, w.Life+2*time.Second))
			continue
		}
		time.Sleep(w.Life)
		require.NoError(w, h.Err(), name)
		require.Empty(w, waiting)
		w.Unlocks(h)
		w.Unlocks(w.Gets(waiting, 1100*time.Millisecond))
	}
}

// boundedHolds sets how long a hold lasts at most. A kind that takes no such option says so.
func boundedHolds(w *World, k Kind) {
	for i, c := range []struct {
		option signalbox.LockOption
		lasts  time.Duration
		cause  error
	}{
		{signalbox.WithFixedLease(10 * time.Second), 10 * time.Second, signalbox.ErrLost},
		{signalbox.WithMaxHold(70 * time.Second), 70 * time.Second, signalbox.ErrMaxHold},
	} {
		name := fmt.Sprint(i)
		h, err := w.Process(k).Lock(name, c.option).Lock(w.Context())
		if errors.Is(err, signalbox.ErrBadOption) {
			continue
		}
		require.NoError(w, err)
		began := time.Now()
		time.Sleep(c.lasts * 6 / 10)
		require.NoError(w, h.Err())
		<-h.Done()
		require.ErrorIs(w, h.Err(), c.cause)
		require.GreaterOrEqual(w, time.Since(began), c.lasts*6/10)
		require.LessOrEqual(w, time.Since(began), c.lasts)
		time.Sleep(c.lasts / 2)
		w.Free(w.Rival(k), name)
	}
}

// faultOfRenewal gives each fault to each of the next requests of a holder with its whole lease. The hold outlives it, and its release
// leaves nothing.
func faultOfRenewal(w *World, k Kind) {
	b := w.Rival(k)
	for f := LoseRequest; f < faults; f++ {
		if redistest.Quick() && (int(f)+len(k.Name))%2 == 0 {
			continue // kinds have the others
		}
		a := w.Process(k)
		name := fmt.Sprint(f)
		h := w.Holds(a, name)
		time.Sleep(w.Life)
		a.Arm(1, f)
		time.Sleep(2 * w.Life)
		require.NotEmpty(w, a.Requests())
		w.Held(b, name)
		a.Arm(1, f)
		time.Sleep(w.Life / 3)
		if err := h.Unlock(); !errors.Is(err, signalbox.ErrUnconfirmed) {
			require.NoError(w, err, name)
		}
		time.Sleep(9 * time.Second)
		w.LeavesNothing(b, name)
		w.Free(b, name)
		a.End()
	}
}
