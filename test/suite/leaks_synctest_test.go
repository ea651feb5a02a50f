// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// givenUp ends the context of a call at each millisecond, before and after the grant.
func givenUp(w *World, k Kind) {
	a, b := w.Rival(k), w.Process(k)
	b.Latency(3 * time.Millisecond)
	for ms := range 24 {
		h := w.Holds(a, "a")
		ctx, cancel := context.WithTimeout(w.Context(), time.Duration(ms)*time.Millisecond)
		waiting := locktest.LaterWith(ctx, b.Lock("a").Lock)
		time.Sleep(10 * time.Millisecond)
		w.Unlocks(h)
		if got := <-waiting; got.Err == nil {
			w.Unlocks(got.Value)
		} else {
			require.ErrorIs(w, got.Err, context.DeadlineExceeded)
		}
		cancel()
		w.Arrive()
		w.LeavesNothing(b, "a")
	}
	over, end := context.WithCancelCause(w.Context())
	why := errors.New("the request was dropped")
	end(why)
	b.Arm(0, None)
	_, err := b.Lock("b").Lock(over)
	require.ErrorIs(w, err, context.Canceled)
	require.ErrorIs(w, err, why)
	require.True(w, k.Function || len(b.Requests()) == 0, "%q", b.Requests()) // a once ends its call on another goroutine
	for ms := range 8 {                                                       // of a lock that is free
		ctx, cancel := context.WithTimeout(w.Context(), time.Duration(ms)*time.Millisecond)
		if h, err := b.Lock("b").Lock(ctx); err == nil {
			w.Unlocks(h)
		}
		cancel()
		time.Sleep(4 * time.Second)
		w.LeavesNothing(b, "b")
	}
}

// closes ends a session that holds and waits, in time, whatever the server does and however long it may take. Calls that wait end with
// ErrClosed, the lease is over, and nothing is left of either.
func closes(w *World, k Kind) {
	causes, limits := []func(*Wire){func(*Wire) {}}, []time.Duration{0}
	if w.Virtual {
		causes, limits = append(causes, (*Wire).Silence, (*Wire).Refuse), append(limits, 300*time.Millisecond, session.DefaultCloseGrace)
	}
	for i, cause := range causes {
		for j, limit := range limits {
			if redistest.Quick() && (i+j+len(k.Name))%len(limits) != 0 {
				continue // kinds have the others
			}
			w.closesIn(k, fmt.Sprint(i, j), cause, limit)
		}
	}
}

func (w *World) closesIn(k Kind, name string, cause func(*Wire), limit time.Duration) {
	w.Helper()
	a, b := w.Process(k), w.Rival(k)
	held, awaited, late := name+"held", name+"awaited", name+"late"
	h, other := w.Holds(a, held), w.Holds(b, awaited)
	waiting := []waiter{w.Waits(w.Context(), a, awaited), locktest.LaterWith(w.Context(), a.Lock(awaited).Lock)}
	cause(a.Wire)
	waiting = append(waiting, locktest.LaterWith(w.Context(), a.Lock(awaited).Lock))
	w.isFree(a, late, 50*time.Millisecond) // what it asked for may be undone
	ctx, cancel := context.WithTimeout(w.Context(), limit)
	defer cancel()
	graces := 1
	if limit == session.DefaultCloseGrace {
		ctx, graces = context.Background(), len(a.Sessions) // each session has a grace of its own
	}
	began := time.Now()
	err := a.Close(ctx)
	require.True(w, err != nil || limit > 0, "a lease was left") // else it may have ended by itself
	longest := time.Duration(graces)*limit + time.Duration(len(a.Sessions))*1100*time.Millisecond
	require.True(w, !w.Virtual || time.Since(began) <= longest, "%v", time.Since(began))
	for _, waits := range waiting {
		require.ErrorIs(w, (<-waits).Err, signalbox.ErrClosed)
	}
	<-h.Done()
	_, err = a.Lock(held).Lock(w.Context())
	require.ErrorIs(w, err, signalbox.ErrClosed)
	w.Unlocks(other)
	if w.Virtual {
		a.Heal()
		time.Sleep(max(45*time.Second, 4*k.Dead)) // what the server does not know of ends by itself
	}
	for _, name := range []string{held, awaited} {
		w.Unlocks(w.Gets(w.Waits(w.Context(), b, name), soon+k.Shortest))
	}
	if !w.Virtual {
		return
	}
	require.NoError(w, b.Close(w.Context()))
	time.Sleep(15 * time.Second)
	synctest.Wait()
	w.NoSubscribers()
	require.Zero(w, locktest.Goroutines())
	for _, name := range []string{held, awaited, late} {
		w.LeavesNothing(b, name)
	}
}

// closesAnytime closes a session at each of many instants, while its goroutines acquire and release: in time, with a context that has ended
// or with one that has not. No call returns another error than ErrClosed, no lease outlives Close, and nothing is left.
func closesAnytime(w *World, k Kind) {
	b := w.Rival(k)
	for at := 0; at < 60; at += redistest.Rounds(13, 3) {
		a := w.Process(k)
		a.Latency(7 * time.Millisecond)
		names := []string{fmt.Sprint(at, "a"), fmt.Sprint(at, "b")}
		last := make([]Hold, 4)
		var group sync.WaitGroup
		for i := range last {
			group.Go(func() {
				for {
					h, err := a.Lock(names[i%2]).Lock(w.Context())
					if err != nil {
						assert.ErrorIs(w, err, signalbox.ErrClosed)
						return
					}
					last[i] = h
					select {
					case <-h.Done():
					case <-time.After(5 * time.Millisecond):
					}
					_ = h.Unlock() // Close may have ended it
				}
			})
		}
		time.Sleep(time.Duration(at) * time.Millisecond)
		ctx := w.Context()
		if at%2 == 1 {
			ctx = locktest.Ended()
		}
		began := time.Now()
		_ = a.Close(ctx) // it may say that leases were left
		require.LessOrEqual(w, time.Since(began), time.Duration(len(a.Sessions))*1100*time.Millisecond, "closed after %d ms", at)
		group.Wait()
		for _, h := range last {
			require.True(w, h == nil || h.Err() != nil, "closed after %d ms: a lease outlives its session", at)
		}
		a.End()
		time.Sleep(4 * time.Second)
		for _, name := range names {
			w.LeavesNothing(b, name)
		}
	}
}

// trial is one acquire and its release, of which one request has a fault.
type trial struct {
	name  string
	waits bool // the lock is held at first, and released after more than a poll
	try   bool // by TryLock
	ends  bool // the context ends as the request with the fault is sent
	at    int  // the number of the request
	fault Fault
}

// faultOfAcquire gives each fault to each request of an acquire and its release, also if the context ends then. A lease that was
// returned is held, an error leaves nothing, and in the end the lock is free, and stays with the next holder.
func faultOfAcquire(w *World, k Kind) {
	helper := w.Rival(k)
	for i, t := range []trial{
		{name: "free"}, {name: "held", waits: true}, {name: "try", try: true}, {name: "free, given up", ends: true}, {name: "held, given up", waits: true, ends: true},
	} {
		if t.try && k.NoTry {
			continue
		}
		const most = 12
		for t.at = 1; t.at < most; t.at++ {
			requests := 0
			for t.fault = LoseRequest; t.fault < faults; t.fault++ {
				if redistest.Quick() && (i+t.at+int(t.fault)+len(k.Name))%4 != 0 {
					continue // kinds have the others
				}
				n, err := t.run(w, k, helper)
				require.NoError(w, err, "%s, %v of request %d", t.name, t.fault, t.at)
				requests = max(requests, n)
			}
			if requests < t.at {
				break // there are no more
			}
		}
	}
}

// run returns how many requests there were.
func (t trial) run(w *World, k Kind, helper *Process) (requests int, err error) {
	w.Helper()
	p := w.Process(k)
	defer p.End()
	name := fmt.Sprint(t)
	ctx, cancel := context.WithTimeout(w.Context(), 40*time.Second)
	defer cancel()
	if t.waits {
		h := w.Holds(helper, name)
		time.AfterFunc(1200*time.Millisecond, func() { _ = h.Unlock() })
	}
	p.Arm(t.at, t.fault)
	var ended time.Time
	if t.ends {
		var sent atomic.Int64
		p.OnRequest(func(string) {
			if sent.Add(1) == int64(t.at) {
				ended = time.Now()
				cancel()
			}
		})
	}
	call := p.Lock(name).Lock
	if t.try {
		call = p.Lock(name).TryLock
	}
	h, err := call(ctx)
	if t.ends && errors.Is(err, context.Canceled) {
		require.LessOrEqual(w, time.Since(ended), w.Grace, "%v", t)
	} else if err != nil && !t.try {
		return 0, fmt.Errorf("Lock: %w", err)
	}
	if err == nil {
		if err := t.useAndRelease(w, helper, name, h); err != nil {
			return 0, err
		}
	}
	requests = len(p.Requests())
	time.Sleep(9 * time.Second) // what is undone in the background has been
	if held, immortal := w.Keys(helper, name); len(held)+len(immortal) > 0 {
		return 0, fmt.Errorf("these keys are left: %q, and these never end: %q", held, immortal)
	}
	next, err := helper.Lock(name).Lock(w.Context())
	if err != nil {
		return 0, err
	}
	if h != nil && next.Token() <= h.Token() && !k.NoTokens {
		return 0, errors.New("the token fell")
	}
	time.Sleep(2 * time.Second) // a copy may arrive
	if err := next.Err(); err != nil {
		return 0, fmt.Errorf("the next holder: %w", err)
	}
	return requests, next.Unlock()
}

// useAndRelease requires that the server knows the hold.
func (trial) useAndRelease(w *World, helper *Process, name string, h Hold) error {
	if err := h.Err(); err != nil {
		return err
	}
	if held, _ := w.Keys(helper, name); len(held) == 0 {
		return errors.New("there is a lease, and no hold")
	}
	if err := locktest.IgnoreUnconfirmed(h.Unlock()); err != nil {
		return fmt.Errorf("Unlock: %w", err)
	}
	return nil
}

// unlockWithoutReply cuts the wire before an Unlock, with and without another waiter in the session. That returns after a second, says
// until when the lock may be held, and is repeated when the wire heals.
func unlockWithoutReply(w *World, k Kind) {
	for _, isAwaited := range []bool{false, true} {
		a, b := w.Process(k), w.Rival(k)
		name := fmt.Sprint(isAwaited)
		h := w.Holds(a, name)
		time.Sleep(2 * time.Second)
		var waiting []waiter
		if isAwaited && k.excludesItself() {
			waiting = append(waiting, w.Waits(w.Context(), a, name))
		}
		a.Silence()
		began, ends := time.Now(), h.Deadline()
		err := h.Unlock()
		require.ErrorIs(w, err, signalbox.ErrUnconfirmed)
		var unconfirmed *signalbox.UnconfirmedError
		require.ErrorAs(w, err, &unconfirmed)
		require.WithinRange(w, unconfirmed.KeyEnds, ends, ends.Add(2*w.Life))
		require.LessOrEqual(w, time.Since(began), time.Second+w.Grace)
		require.Error(w, h.Err())
		require.Error(w, h.Unlock())
		a.Heal()
		waiting = append(waiting, w.Waits(w.Context(), b, name))
		all := merged(waiting)
		for range waiting {
			w.Unlocks(w.Gets(all, 4*time.Second))
		}
	}
}
