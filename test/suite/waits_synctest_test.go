// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// aPoll is how long a waiter takes at most to find a grant without a message.
const aPoll = 1050 * time.Millisecond

// lostMessages loses the messages to a waiter, by a wire that swallows them, by connections that are closed, and for a session that polls.
func lostMessages(w *World, k Kind) {
	a, b := w.Rival(k), w.Process(k)
	w.defaults = append(w.defaults, signalbox.WithPolling())
	polls := w.Process(k)
	for i := range w.rounds(4, 12) {
		p := []*Process{b, b, b, polls}[i%4]
		h := w.Holds(a, "a")
		waiting := w.Waits(w.Context(), p, "a")
		[]func(){func() { b.LoseMessages(true) }, b.CutSubscriptions, b.Cut, func() {}}[i%4]()
		time.Sleep(700*time.Millisecond + time.Duration(i)*137*time.Millisecond)
		w.Unlocks(h)
		next := w.Gets(waiting, aPoll)
		b.LoseMessages(false)
		waiting = w.Waits(w.Context(), a, "a")
		w.Unlocks(next)
		w.Unlocks(w.Gets(waiting, 30*time.Millisecond))
	}
}

// noticed releases a lock while a waiter comes, with a connection that is new or whose subscription has just ended. Each time the
// waiter has the lock before its next poll.
func noticed(w *World, k Kind) {
	const latency = 20 * time.Millisecond
	a := w.Rival(k)
	for i := range redistest.Rounds(12, 80) {
		b := w.Process(k)
		b.Latency(latency)
		name := fmt.Sprint(i)
		h := w.Holds(a, name)
		waiting := waiter(locktest.LaterWith(w.Context(), b.Lock(name).Lock))
		if i%2 == 1 {
			time.Sleep(time.Second)
			b.CutSubscriptions()
		}
		time.Sleep(time.Duration(i) * 77 * time.Millisecond % (16 * latency))
		w.Unlocks(h)
		w.Unlocks(w.Gets(waiting, 25*latency))
		b.End()
	}
}

// handedOver counts the ways from a release to the grant: one to the server and one back, and those of what else a call sends.
// A waiter that listens sends no poll.
func handedOver(w *World, k Kind) {
	const latency = 10 * time.Millisecond
	a, b := w.Process(k), w.Rival(k)
	ways := 2 * max(k.RoundTrips/max(k.Servers, 1)-1, 1+k.Members)
	if k.In != nil {
		ways += 2 // the release sends a message, and the waiter tries
	}
	for i := range 6 {
		h := w.Holds(a, "a")
		b.Arm(0, None)
		waiting := w.Waits(w.Context(), b, "a")
		time.Sleep(400 * time.Millisecond)
		for _, p := range []*Process{a, b} {
			p.Latency(latency)
		}
		began := time.Now()
		unlocked := make(chan bool, 1)
		go func() { unlocked <- w.Released(h) }()
		next := w.Gets(waiting, time.Second)
		require.True(w, i == 0 || time.Since(began) <= time.Duration(ways)*latency+time.Millisecond, "%v", time.Since(began))
		<-unlocked
		w.Unlocks(next)
		require.True(w, i < 2 || k.RoundTrips > 2 || ways > 2 || len(b.Requests()) <= k.RoundTrips, "%q", b.Requests())
		for _, p := range []*Process{a, b} {
			p.Latency(0)
		}
		a, b = b, a
	}
}

// holderDies cuts a holder off for good, sooner or later. The waiter has the lock as its hold ends.
func holderDies(w *World, k Kind) {
	for i := range w.rounds(1, 4) {
		a, b := w.Process(k), w.Rival(k)
		name := fmt.Sprint(i)
		h := w.Holds(a, name)
		time.Sleep(w.Life/2 + time.Duration(i)*w.Life*2/5)
		waiting := w.Waits(w.Context(), b, name)
		a.Silence()
		dies := time.Now()
		next := w.Gets(waiting, w.Life+1100*time.Millisecond)
		if late := time.Since(h.Deadline()); w.Virtual && !k.Turnless && !k.StepsDown && k.Members < 2 {
			require.LessOrEqual(w, late, w.Life/40+100*time.Millisecond, "it died %v ago", time.Since(dies))
		}
		w.Unlocks(next)
		a.End()
		b.End()
	}
}

// waitersDie cuts two processes off, however many waiters they have: one is silent, the connections of the other one are closed. They
// delay the waiter behind them by four seconds each, and leave nothing.
func waitersDie(w *World, k Kind) {
	a, silent, refused, b := w.Rival(k), w.Process(k), w.Process(k), w.Rival(k)
	dead := 1
	if w.Virtual && k.Dead == 0 {
		dead = 10
	}
	h := w.Holds(a, "a")
	ctx, cancel := context.WithCancel(w.Context())
	defer cancel()
	for range dead {
		w.Waits(ctx, silent, "a")
		w.Waits(ctx, refused, "a")
	}
	waiting := w.Waits(w.Context(), b, "a")
	silent.Silence()
	refused.Refuse()
	w.Unlocks(h)
	next := w.Gets(waiting, max(7500*time.Millisecond, k.Dead))
	time.Sleep(4 * time.Second)
	w.Unlocks(next)
	cancel()
	if w.Virtual {
		time.Sleep(30 * time.Second)
		w.Free(b, "a")
		w.Arrive()
		w.LeavesNothing(b, "a")
	}
}

// serverEmpty restarts a server without its data, at once or after an outage. All waiters get the lock within seconds, one after the
// other, and the holder learns of its loss.
func serverEmpty(w *World, k Kind) {
	for i, away := range []time.Duration{0, 15 * time.Second} {
		const each = 3
		a, b, c := w.Process(k), w.Rival(k), w.Process(k)
		name := fmt.Sprint(i)
		h := w.Holds(a, name)
		time.Sleep(2 * time.Second)
		var m monitor
		used := make(chan bool, 2*each)
		for range each {
			for _, p := range []*Process{b, c} {
				go func() { used <- m.use(w.Context(), w, p, name, 10*time.Millisecond) }()
				w.Arrive()
			}
		}
		for _, p := range []*Process{a, b, c} {
			p.Refuse()
		}
		time.Sleep(away)
		for _, server := range w.redis {
			server.FlushAll()
		}
		for _, p := range []*Process{a, b, c} {
			p.Heal()
		}
		began := time.Now()
		for range 2 * each {
			select {
			case is := <-used:
				require.True(w, is)
			case <-time.After(5 * time.Second):
				require.Fail(w, "no waiter gets it")
			}
		}
		<-h.Done()
		require.LessOrEqual(w, time.Since(began), w.Life/3+w.Grace)
		w.Lost(h)
	}
}

// order queues five waiters, and two that give up, with messages and without. TryLock fails as long as a waiter waits. On real servers the order is not
// compared: a busy machine passes a waiter over from which the server hears nothing for three seconds.
func order(w *World, k Kind) {
	served(w, k, "a", 100*time.Millisecond, func(*Process) {})
	if w.Virtual {
		served(w, k, "b", aPoll, func(p *Process) { p.LoseMessages(true) })
	}
}

func served(w *World, k Kind, name string, within time.Duration, hinder func(p *Process)) {
	w.Helper()
	holder := w.Rival(k)
	last := w.Holds(holder, name)
	ctx, cancel := context.WithCancel(w.Context())
	defer cancel()
	w.Waits(ctx, w.Process(k), name)
	var queue []waiter
	for i := range 5 {
		p := w.Process(k)
		if i%2 == 1 {
			p = w.Rival(k)
		}
		hinder(p)
		queue = append(queue, w.Waits(w.Context(), p, name))
		if i == 2 {
			locktest.LaterWith(ctx, p.Lock(name).Lock) // it may share a ticket, and sends nothing then
			w.Arrive(p)
		}
	}
	cancel()
	w.Arrive()
	if !w.Virtual {
		queue = slices.Repeat([]waiter{merged(queue)}, len(queue))
	}
	for _, waiting := range queue {
		if w.Virtual {
			w.tryWaits(holder, name)
		}
		w.Unlocks(last)
		next := w.Gets(waiting, within)
		w.Rises(k, last, next)
		last = next
	}
	w.Unlocks(last)
	w.Free(holder, name)
}

// merged is whoever of the queue is served next.
func merged(queue []waiter) waiter {
	all := make(chan locktest.Result[Hold], len(queue))
	for _, waiting := range queue {
		go func() { all <- <-waiting }()
	}
	return all
}

func (w *World) tryWaits(p *Process, name string) {
	w.Helper()
	if !p.kind.NoTry {
		_, err := p.Lock(name).TryLock(w.Context())
		require.ErrorIs(w, err, signalbox.ErrHeld)
	}
}

// tooMany lets as many wait as may. A further call fails at once, and one that gives up lets another one wait. A kind that takes no such
// option says so.
func tooMany(w *World, k Kind) {
	a, b := w.Rival(k), w.Process(k, signalbox.WithMaxWaiters(2))
	if _, err := b.Lock("a").Lock(locktest.Ended()); errors.Is(err, signalbox.ErrBadOption) {
		return
	}
	h := w.Holds(a, "a")
	ctx, cancel := context.WithCancel(w.Context())
	defer cancel()
	gone, first := w.Waits(ctx, b, "a"), w.Waits(w.Context(), b, "a")
	isBusy := func() {
		w.Helper()
		b.Arm(0, None)
		began := time.Now()
		_, err := b.Lock("a").Lock(w.Context())
		require.ErrorIs(w, err, signalbox.ErrBusy)
		require.NotErrorIs(w, err, signalbox.ErrHeld)
		require.Equal(w, began, time.Now())
		require.True(w, k.Members > 1 || len(b.Requests()) == 0, "%q", b.Requests())
	}
	isBusy()
	w.tryWaits(b, "a")
	cancel()
	require.ErrorIs(w, (<-gone).Err, context.Canceled)
	all := merged([]waiter{first, w.Waits(w.Context(), b, "a")})
	isBusy()
	w.Unlocks(h)
	for range 2 {
		w.Unlocks(w.Gets(all, 2*time.Second))
	}
	w.Free(b, "a")
}

// turns keeps three goroutines of a session busy. Another session gets the lock within a turn of 20 ms and some uses.
func turns(w *World, k Kind) {
	busy, other := w.Process(k), w.Rival(k)
	busy.Latency(time.Millisecond)
	ctx, cancel := context.WithCancel(w.Context())
	var m monitor
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() {
			for ctx.Err() == nil {
				m.use(ctx, w, busy, "a", time.Millisecond)
			}
		})
	}
	time.Sleep(300 * time.Millisecond)
	for range redistest.Rounds(4, 20) {
		waiting := locktest.LaterWith(w.Context(), other.Lock("a").Lock)
		w.Unlocks(w.Gets(waiting, 250*time.Millisecond))
	}
	cancel()
	group.Wait()
	time.Sleep(10 * time.Second)
	w.LeavesNothing(other, "a")
}
