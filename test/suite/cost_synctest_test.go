// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"context"
	"fmt"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// cost counts the requests of a free lock and of an idle session, the goroutines and renewals of holds, and the polls of many waiters.
func cost(w *World, k Kind) {
	p := w.Process(k)
	first := w.Holds(p, "first")
	w.Arrive(p) // at the servers which a majority did not wait for as well: they know the scripts then
	w.Unlocks(first)
	time.Sleep(5 * time.Second)
	p.Arm(0, None)
	w.Unlocks(w.Holds(p, "a"))
	require.LessOrEqual(w, len(p.Requests()), k.RoundTrips+1, "%q", p.Requests())
	time.Sleep(15 * time.Second)
	p.Arm(0, None)
	time.Sleep(time.Duration(redistest.Rounds(10, 60)) * time.Minute)
	require.Empty(w, p.Requests(), "the session is idle")
	w.NoSubscribers()
	w.Arrive()
	idle := locktest.Goroutines()
	require.Zero(w, idle)
	const holds, renewals = 20, 6
	var held []Hold
	for i := range holds {
		held = append(held, w.Holds(p, fmt.Sprint("held/", i)))
	}
	time.Sleep(2 * w.Life)
	synctest.Wait()
	if !k.Function {
		require.LessOrEqual(w, locktest.Goroutines(), idle+6)
	}
	p.Arm(0, None)
	time.Sleep(w.Life)
	require.LessOrEqual(w, len(p.Requests()), holds*renewals*max(k.Members, 1))
	for _, h := range held {
		w.Unlocks(h)
	}
}

// refusal makes the server refuse for a minute. TryLock returns its words, and Lock waits. A waiter that gives up returns what the server says
// now, and not that the lock was held before.
func refusal(w *World, k Kind) {
	const words = "OOM command not allowed when used memory > 'maxmemory'."
	p := w.Process(k)
	w.Holds(w.Rival(k), "b")
	waits, giveUp := context.WithCancel(w.Context())
	defer giveUp()
	gaveUp := w.Waits(waits, p, "b")
	time.Sleep(3 * time.Second)
	w.Refuses(words)
	if !k.NoTry {
		_, err := p.Lock("a").TryLock(w.Context())
		require.ErrorIs(w, err, signalbox.ErrRefused)
		require.ErrorContains(w, err, words)
	}
	ctx, cancel := context.WithTimeout(w.Context(), 3*time.Second)
	defer cancel()
	_, err := p.Lock("a").Lock(ctx)
	require.ErrorIs(w, err, context.DeadlineExceeded)
	require.ErrorContains(w, err, words)
	giveUp()
	if got := <-gaveUp; !k.NoLease { // a latch is waited for by another call
		require.ErrorIs(w, got.Err, context.Canceled)
		require.ErrorIs(w, got.Err, signalbox.ErrRefused)
		require.NotErrorIs(w, got.Err, signalbox.ErrHeld)
		require.ErrorContains(w, got.Err, words)
	}
	waiting := w.Waits(w.Context(), p, "a")
	time.Sleep(time.Minute)
	require.Empty(w, waiting)
	w.Refuses("")
	w.Unlocks(w.Gets(waiting, 3*time.Second))
}

// denial makes the server deny what a process was never allowed. No call waits for it.
func denial(w *World, k Kind) {
	const words = "NOPERM this user has no permissions to run the 'evalsha' command"
	w.Refuses(words)
	p := w.Process(k)
	began := time.Now()
	_, err := p.Lock("a").Lock(w.Context())
	require.ErrorIs(w, err, signalbox.ErrDenied)
	require.ErrorContains(w, err, words)
	require.LessOrEqual(w, time.Since(began), w.Grace)
	w.Refuses("")
	w.LeavesNothing(p, "a")
	w.Free(w.Process(k), "a")
}

// force ends a hold without its lease, and names its holder before. The holder learns of it by a message, whoever sends it, and the
// waiters of both sides get the lock.
func force(w *World, k Kind) {
	a, b := w.Process(k), w.Process(k)
	for _, forcible := range []locktest.Forcible{b.forcible("a"), a.forcible("a")} {
		w.Arrive(a, b) // a quorum has released it, and so does the rest
		require.ErrorIs(w, forcible.ForceUnlock(w.Context()), signalbox.ErrNotHeld)
		h := w.Holds(a, "a")
		holder, err := forcible.Holder(w.Context())
		require.NoError(w, err)
		require.LessOrEqual(w, holder.Token, h.Token())
		waiting := []waiter{w.Waits(w.Context(), w.Rival(k), "a"), locktest.LaterWith(w.Context(), a.Lock("a").Lock)}
		w.Arrive(a)
		require.NoError(w, forcible.ForceUnlock(w.Context()))
		forced := time.Now()
		<-h.Done()
		require.LessOrEqual(w, time.Since(forced), w.Grace)
		w.Lost(h)
		all := merged(waiting)
		for range waiting {
			next := w.Gets(all, 5*time.Second)
			w.Rises(k, h, next)
			w.Unlocks(next)
		}
		isLocked, err := forcible.IsLocked(w.Context())
		require.NoError(w, err)
		require.False(w, isLocked)
	}
}

// forcible returns the lock of a name, nil if it has no ForceUnlock.
func (p *Process) forcible(name string) locktest.Forcible {
	lock, _ := p.Lock(name).(leased)
	forcible, _ := lock.lock.(locktest.Forcible)
	return forcible
}
