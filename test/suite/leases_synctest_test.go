// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/timers"
)

// leaseEndsBeforeHold cuts a holder off, sooner or later after a grant at once or to a waiter. Its lease ends while the server still has
// the hold, and the waiter gets the lock when that has ended, too.
func leaseEndsBeforeHold(w *World, k Kind) {
	moments := []time.Duration{w.Life / 2} // it has its whole lease
	if w.Virtual {
		moments = append(moments, 0, 1100*time.Millisecond, 3*w.Life+w.Life/7)
	}
	for i, after := range moments {
		a, b := w.Process(k), w.Rival(k)
		name := fmt.Sprint(i)
		h := w.HoldsAfter(b, a, name, i%2 == 1)
		time.Sleep(after)
		require.NoError(w, h.Err())
		waiting := w.Waits(w.Context(), b, name)
		a.Silence()
		cut := time.Now()
		<-h.Done()
		if after >= w.Life/2 {
			require.GreaterOrEqual(w, time.Since(cut), k.survives(w.Life)-w.Grace)
		}
		require.LessOrEqual(w, time.Since(cut), w.Life*49/50+w.Grace)
		if w.Virtual { // between the two there are milliseconds
			held, _ := w.Keys(b, name)
			require.NotEmpty(w, held, "the hold ended before its lease")
			require.Empty(w, waiting)
		}
		next := w.Gets(waiting, w.Life+2*time.Second-time.Since(cut))
		w.Rises(k, h, next)
		w.Lost(h)
		w.Unlocks(next)
		a.End()
		b.End()
	}
}

// HoldsAfter acquires a lock for a process that waits until another one releases it, or, if it does not wait, for one that is free.
func (w *World) HoldsAfter(other, p *Process, name string, waits bool) Hold { //nolint:revive // which of two ways to a grant
	w.Helper()
	if !waits {
		return w.Holds(p, name)
	}
	before := w.Holds(other, name)
	waiting := w.Waits(w.Context(), p, name)
	w.Unlocks(before)
	return w.Gets(waiting, 2*time.Second)
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

// outage makes the server unreachable in two ways, for nearly as long as a hold survives: holder and waiter outlive it. Then it is
// silent for longer: the lease ends in time, and the waiter waits.
func outage(w *World, k Kind) {
	longer := 2 * w.Life
	for i, c := range []struct {
		begins func(x *Wire)
		lasts  time.Duration
	}{
		{(*Wire).Silence, k.survives(w.Life) - time.Second},
		{(*Wire).Refuse, k.survives(w.Life) - time.Second},
		{(*Wire).Silence, longer},
	} {
		a, b := w.Process(k), w.Rival(k)
		name := fmt.Sprint(i)
		h := w.Holds(a, name)
		time.Sleep(w.Life)
		waiting := w.Waits(w.Context(), b, name)
		for _, p := range []*Process{a, b} {
			c.begins(p.Wire)
		}
		began := time.Now()
		if c.lasts == longer {
			<-h.Done()
			require.LessOrEqual(w, time.Since(began), w.Life)
		}
		time.Sleep(c.lasts - time.Since(began))
		require.Empty(w, waiting)
		require.Equal(w, c.lasts == longer, h.Err() != nil)
		for _, p := range []*Process{a, b} {
			p.Heal()
		}
		if c.lasts < longer {
			time.Sleep(w.Life)
			require.Empty(w, waiting)
			w.Unlocks(h)
		} else {
			w.Lost(h)
		}
		w.Unlocks(w.Gets(waiting, 2*time.Second+k.Shortest))
		a.End()
		b.End()
	}
}

// firstLease lets a holder die at once: the next one has the lock when the first lease has ended, which the caller may choose. A holder that
// lives gets its whole lease from the first renewal, also after a short outage.
func firstLease(w *World, k Kind) {
	for i, c := range []struct {
		option signalbox.LockOption
		lasts  time.Duration
	}{
		{signalbox.WithRenewedLease(w.Life), 3 * time.Second},
		{signalbox.WithFirstLease(10 * time.Second), 10 * time.Second},
		{signalbox.WithFirstLease(time.Hour), w.Life},
		{signalbox.WithRenewedLease(2500 * time.Millisecond), 2500 * time.Millisecond},
	} {
		a, b := w.Process(k, c.option), w.Rival(k)
		name := fmt.Sprint(i)
		h := w.Holds(a, name)
		began := time.Now()
		require.LessOrEqual(w, time.Until(h.Deadline()), c.lasts)
		a.Silence()
		next := w.Gets(w.Waits(w.Context(), b, name), c.lasts+time.Second)
		require.Greater(w, time.Since(began), c.lasts-200*time.Millisecond)
		w.Rises(k, h, next)
		w.Lost(h)
		time.Sleep(1100 * time.Millisecond)
		require.Greater(w, time.Until(next.Deadline()), w.Life/2)
		w.Unlocks(next)
		a.End()
		b.End()
	}
	for i, c := range []struct {
		begins func(x *Wire)
		lasts  time.Duration
	}{{(*Wire).Silence, time.Second}, {(*Wire).Refuse, 2500 * time.Millisecond}} {
		a := w.Process(k)
		h := w.Holds(a, fmt.Sprint("outage", i))
		c.begins(a.Wire)
		time.Sleep(c.lasts)
		a.Heal()
		time.Sleep(w.Life)
		w.Unlocks(h)
	}
}

// wallClock sets the wall clock of all processes, back and forward, at each moment of a hold. A lease is lost only if the clock shows that it is
// over, and then by itself, as when its host was suspended; a waiter has the lock in time.
func wallClock(w *World, k Kind) {
	defer timers.Skew(0)
	moments := []string{"held", "acquired", "renewed", "its holder dies"}
	for i, leases := range []float64{-10, -1, -.4, .1, 2} {
		for j, moment := range moments {
			if redistest.Quick() && j > 0 && (i+j+len(k.Name))%3 != 0 || moment == "renewed" && leases > 1 {
				continue // kinds have the others; a step that ends a lease is one that ends a lease that is held
			}
			w.setsWallClock(k, fmt.Sprint(leases, moment), leases, moment)
		}
	}
}

func (w *World) setsWallClock(k Kind, name string, leases float64, moment string) {
	w.Helper()
	timers.Skew(0)
	a, b := w.Process(k), w.Rival(k)
	defer a.End()
	defer b.End()
	set := sync.OnceFunc(func() { timers.Skew(time.Duration(leases * float64(w.Life))) })
	if moment == "acquired" {
		w.Unlocks(w.Holds(a, name))
		time.Sleep(time.Second)
		a.OnRequest(func(string) { set() })
	}
	h := w.Holds(a, name)
	time.Sleep(w.Life / 2)
	waiting := w.Waits(w.Context(), b, name)
	switch moment {
	case "renewed":
		a.OnRequest(func(string) { set() })
	case "its holder dies":
		set()
		a.Silence()
		next := w.Gets(waiting, w.Life+2*time.Second)
		w.Lost(h)
		w.Unlocks(next)
		return
	case "held":
		set()
	}
	if leases > 1 && moment == "held" {
		select {
		case <-h.Done():
		case <-time.After(600 * time.Millisecond):
			require.Fail(w, "nobody compares the clocks")
		}
		w.Lost(h)
		w.Unlocks(w.Gets(waiting, w.Life+2*time.Second))
		return
	}
	time.Sleep(w.Life)
	require.NoError(w, h.Err(), name)
	require.Empty(w, waiting)
	w.Unlocks(h)
	w.Unlocks(w.Gets(waiting, 1100*time.Millisecond))
}

// boundedHolds sets how long a hold lasts at most. A kind that takes no such option says so.
// The lease ends in time, however it was granted. So does its hold, without a release, and a waiter of the same session has the lock then.
func boundedHolds(w *World, k Kind) {
	for i, c := range []struct {
		option signalbox.LockOption
		lasts  time.Duration
		cause  error
	}{
		{signalbox.WithFixedLease(300 * time.Millisecond), 300 * time.Millisecond, signalbox.ErrLost},
		{signalbox.WithFixedLease(10 * time.Second), 10 * time.Second, signalbox.ErrLost},
		{signalbox.WithMaxHold(500 * time.Millisecond), 500 * time.Millisecond, signalbox.ErrMaxHold},
		{signalbox.WithMaxHold(70 * time.Second), 70 * time.Second, signalbox.ErrMaxHold},
	} {
		for _, waits := range []bool{false, true} {
			name := fmt.Sprint(i, waits)
			a, b := w.Process(k), w.Rival(k)
			a.options = k.on(c.option)
			if _, err := a.Lock(name).Lock(locktest.Ended()); errors.Is(err, signalbox.ErrBadOption) {
				continue
			}
			w.Unlocks(w.Holds(a, "before"))
			began := time.Now()
			h := w.HoldsAfter(b, a, name, waits)
			if waits {
				began = time.Now()
			}
			var next waiter
			if waits && k.excludesItself() {
				next = w.Waits(w.Context(), a, name)
			}
			time.Sleep(time.Until(began.Add(c.lasts * 8 / 10)))
			require.NoError(w, h.Err())
			a.Silence()
			<-h.Done()
			require.ErrorIs(w, h.Err(), c.cause)
			require.GreaterOrEqual(w, time.Since(began), c.lasts*8/10)
			require.LessOrEqual(w, time.Since(began), c.lasts)
			require.ErrorIs(w, h.Unlock(), c.cause)
			a.Heal()
			switch {
			case next != nil:
				w.Unlocks(w.Gets(next, 4*time.Second)) // a heartbeat may have paid for three
			case waits:
				time.Sleep(4 * time.Second)
			default:
				time.Sleep(time.Until(began.Add(c.lasts)) + w.Grace)
			}
			w.Free(b, name)
		}
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
