// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"context"
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

// lostMessages loses the messages to a waiter, by a wire that swallows them and by a connection that is closed.
func lostMessages(w *World, k Kind) {
	a, b := w.Rival(k), w.Process(k)
	b.LoseMessages(true)
	h := w.Holds(a, "a")
	waiting := w.Waits(w.Context(), b, "a")
	time.Sleep(700 * time.Millisecond)
	w.Unlocks(h)
	next := w.Gets(waiting, aPoll)
	b.LoseMessages(false)
	waiting = w.Waits(w.Context(), a, "a")
	w.Unlocks(next)
	w.Unlocks(w.Gets(waiting, 30*time.Millisecond))
	h = w.Holds(a, "a")
	waiting = w.Waits(w.Context(), b, "a")
	b.CutSubscriptions()
	time.Sleep(1200 * time.Millisecond)
	w.Unlocks(h)
	w.Unlocks(w.Gets(waiting, aPoll))
}

// holderDies cuts a holder off for good. The waiter has the lock a lease and a poll later.
func holderDies(w *World, k Kind) {
	a, b := w.Process(k), w.Rival(k)
	w.Holds(a, "a")
	time.Sleep(w.Life / 2)
	waiting := w.Waits(w.Context(), b, "a")
	a.Silence()
	w.Unlocks(w.Gets(waiting, w.Life+1100*time.Millisecond))
}

// waitersDie cuts two waiters off: one is silent, the connections of the other one are closed. They delay the waiter behind them by
// four seconds each, and leave nothing.
func waitersDie(w *World, k Kind) {
	a, silent, refused, b := w.Rival(k), w.Process(k), w.Process(k), w.Rival(k)
	h := w.Holds(a, "a")
	ctx, cancel := context.WithCancel(w.Context())
	defer cancel()
	w.Waits(ctx, silent, "a")
	w.Waits(ctx, refused, "a")
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

// serverEmpty restarts a server without its data. Both waiters get the lock within seconds, one after the other, and the holder
// learns of its loss by a renewal.
func serverEmpty(w *World, k Kind) {
	a, b, c := w.Process(k), w.Rival(k), w.Process(k)
	h := w.Holds(a, "a")
	time.Sleep(2 * time.Second)
	var m monitor
	used := make(chan bool, 2)
	for _, p := range []*Process{b, c} {
		go func() { used <- m.use(w.Context(), w, p, "a", 10*time.Millisecond) }()
		w.Arrive()
	}
	for _, server := range w.redis {
		server.FlushAll()
	}
	for _, p := range []*Process{a, b, c} {
		p.Cut()
	}
	began := time.Now()
	for range 2 {
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

// order queues five waiters, and two that give up. TryLock fails as long as a waiter waits. On real servers the order is not
// compared: a busy machine passes a waiter over from which the server hears nothing for three seconds.
func order(w *World, k Kind) {
	holder := w.Rival(k)
	last := w.Holds(holder, "a")
	ctx, cancel := context.WithCancel(w.Context())
	defer cancel()
	w.Waits(ctx, w.Process(k), "a")
	var queue []waiter
	for i := range 5 {
		p := w.Process(k)
		if i%2 == 1 {
			p = w.Rival(k)
		}
		queue = append(queue, w.Waits(w.Context(), p, "a"))
		if i == 2 {
			locktest.LaterWith(ctx, p.Lock("a").Lock) // it may share a ticket, and sends nothing then
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
			w.tryWaits(holder)
		}
		w.Unlocks(last)
		next := w.Gets(waiting, 100*time.Millisecond)
		w.Rises(k, last, next)
		last = next
	}
	w.Unlocks(last)
	w.Free(holder, "a")
}

// merged is whoever of the queue is served next.
func merged(queue []waiter) waiter {
	all := make(chan locktest.Result[Hold], len(queue))
	for _, waiting := range queue {
		go func() { all <- <-waiting }()
	}
	return all
}

func (w *World) tryWaits(p *Process) {
	w.Helper()
	if !p.kind.NoTry {
		_, err := p.Lock("a").TryLock(w.Context())
		require.ErrorIs(w, err, signalbox.ErrHeld)
	}
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
