// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
)

// enterable is a lock that its holder enters again, with all the ways to hold it.
type enterable interface {
	locktest.Lock
	Locker(ctx context.Context) *signalbox.Locker
}

// enterable returns the lock of a name, nil if its holder cannot enter it again.
func (p *Process) enterable(name string) enterable {
	lock, _ := p.Lock(name).(leased)
	again, _ := lock.lock.(enterable)
	return again
}

// carried enters a hold again by a context that carries its lease, past a waiter and without a request. The hold ends with the last
// of its entries, in whatever order, and a lease that is over enters nothing. No other lock and no other session is entered.
func carried(w *World, k Kind) {
	a, b := w.Process(k), w.Rival(k)
	lock := a.enterable("a")
	ways := []func(context.Context) (signalbox.Lease, error){lock.Lock, lock.TryLock}
	if k.Rival != nil && k.takes() == max(k.Of, 1) { // who writes may read, too
		rival := k.Rival(a.Sessions, a.prefix+"a", a.options...)
		ways = append(ways, func(ctx context.Context) (signalbox.Lease, error) {
			h, err := rival.Lock(ctx)
			again, _ := h.(signalbox.Lease)
			return again, err
		})
	}
	enterNothing := func(ctx context.Context, cause error) {
		w.Helper()
		for _, enter := range ways {
			_, err := enter(context.WithoutCancel(ctx))
			require.ErrorIs(w, err, cause)
		}
		require.ErrorIs(w, lock.Do(ctx, func(context.Context, signalbox.Lease) error { return nil }), cause)
	}
	for _, isOuterFirst := range []bool{true, false} {
		h := locktest.Must(w, lock.Lock)
		time.Sleep(50 * time.Millisecond) // the hold has its whole lease
		waiting := w.Waits(w.Context(), b, "a")
		a.Arm(0, None)
		ctx := h.Enter(w.Context())
		entries := []signalbox.Lease{h}
		for _, enter := range ways {
			again, err := enter(ctx)
			require.NoError(w, err)
			require.Equal(w, h.Token(), again.Token())
			entries = append(entries, again)
			ctx = again.Enter(ctx)
		}
		if !isOuterFirst {
			slices.Reverse(entries)
		}
		last := entries[len(ways)]
		for _, entry := range entries[:len(ways)] {
			require.NoError(w, entry.Unlock())
			require.ErrorIs(w, entry.Unlock(), signalbox.ErrNotHeld)
			require.NoError(w, last.Err())
		}
		require.True(w, !w.Virtual || len(a.Requests()) == 0, "%q", a.Requests())
		require.Empty(w, waiting)
		other, err := a.enterable("other").Lock(last.Enter(w.Context()))
		require.NoError(w, err)
		w.Held(b, "other")
		require.NoError(w, other.Unlock())
		require.ErrorIs(w, errorOf(b.enterable("a").TryLock(last.Enter(w.Context()))), signalbox.ErrHeld)
		if !k.shares() && k.takes() == max(k.Of, 1) {
			require.ErrorIs(w, errorOf(lock.TryLock(last.Bind(w.Context()))), signalbox.ErrHeld) // it carries nothing
		}
		w.Unlocks(last)
		w.Unlocks(w.Gets(waiting, time.Second))
		enterNothing(last.Enter(w.Context()), signalbox.ErrReleased)
	}
	h := locktest.Must(w, lock.Lock)
	ctx := h.Enter(w.Context())
	w.Forget(b, "a")
	<-h.Done()
	enterNothing(ctx, signalbox.ErrLost)
	w.Free(b, "a")
}

func errorOf(_ signalbox.Lease, err error) error { return err }

// doReleases lets a function of Do hold the lock until it fails, panics, ends its goroutine or releases the lock itself. A function that
// does not get the lock does not run.
func doReleases(w *World, k Kind) {
	a, b := w.Process(k), w.Rival(k)
	lock := a.enterable("a")
	fails := errors.New("no funds")
	type end struct{ panicked, err any }
	for _, c := range []struct {
		does func(signalbox.Lease) error
		want end
	}{
		{func(signalbox.Lease) error { return fails }, end{nil, fails}},
		{func(signalbox.Lease) error { panic(fails) }, end{fails, nil}},
		{func(signalbox.Lease) error { runtime.Goexit(); return nil }, end{}},
		{func(l signalbox.Lease) error { return l.Unlock() }, end{nil, signalbox.ErrNotHeld}},
		{func(l signalbox.Lease) error { w.Forget(b, "a"); <-l.Done(); return fails }, end{nil, signalbox.ErrLost}},
	} {
		began, goesOn, ended := make(chan context.Context), make(chan struct{}), make(chan end, 1)
		go func() {
			var got end
			defer func() {
				got.panicked = recover()
				ended <- got
			}()
			if err := lock.Do(w.Context(), func(ctx context.Context, l signalbox.Lease) error {
				began <- ctx
				<-goesOn
				return c.does(l)
			}); err != nil {
				got.err = err
			}
		}()
		inside := <-began
		w.Held(b, "a")
		require.NoError(w, inside.Err())
		close(goesOn)
		got := <-ended
		require.Equal(w, c.want.panicked, got.panicked)
		if want, _ := c.want.err.(error); want != nil {
			err, _ := got.err.(error)
			require.ErrorIs(w, err, want)
			require.True(w, !errors.Is(want, signalbox.ErrLost) || errors.Is(err, fails)) // both are reported
		} else {
			require.Nil(w, got.err)
		}
		require.Error(w, inside.Err())
		w.Free(b, "a")
	}
	h := w.Holds(b, "a")
	ctx, cancel := context.WithTimeout(w.Context(), soon)
	defer cancel()
	require.ErrorIs(w, lock.Do(ctx, func(context.Context, signalbox.Lease) error {
		w.Error("it runs without the lock")
		return nil
	}), context.DeadlineExceeded)
	w.Unlocks(h)
}

// lockers uses a lock as a sync.Locker. It enters nothing, waits out an outage, reports a loss, and panics if it is misused.
func lockers(w *World, k Kind) {
	a, b := w.Process(k), w.Rival(k)
	lock := a.enterable("a")
	locker := lock.Locker(w.Context())
	var lost error
	locker.OnLost(func(err error) { lost = err })
	for _, forgets := range []bool{false, true} {
		locker.Lock()
		w.Held(b, "a")
		if forgets {
			w.Forget(b, "a")
		}
		locker.Unlock()
		require.Equal(w, forgets, errors.Is(lost, signalbox.ErrLost))
		w.Free(b, "a")
	}
	require.ErrorIs(w, locktest.PanicOf(locker.Unlock), signalbox.ErrNotHeld)
	require.ErrorIs(w, locktest.PanicOf(lock.Locker(locktest.Ended()).Lock), context.Canceled)
	require.ErrorIs(w, locktest.PanicOf(a.enterable("").Locker(w.Context()).Lock), signalbox.ErrBadName)
	for _, holder := range []*Process{a, b} {
		if holder == a && k.shares() {
			continue
		}
		h := locktest.Must(w, holder.enterable("a").Lock)
		locker := lock.Locker(context.WithoutCancel(h.Enter(w.Context())))
		locked := make(chan struct{})
		go func() {
			locker.Lock()
			close(locked)
		}()
		w.Arrive(a)
		a.Refuse()
		time.Sleep(time.Second)
		require.False(w, locktest.IsClosed(locked))
		a.Heal()
		time.Sleep(2 * time.Second) // the hold is renewed
		w.Unlocks(h)
		<-locked
		locker.Unlock()
		w.Free(b, "a")
	}
}
