// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
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

// closes ends a session that holds and waits.
func closes(w *World, k Kind) {
	a, b := w.Process(k), w.Rival(k)
	h, other := w.Holds(a, "a"), w.Holds(b, "b")
	waiting := w.Waits(w.Context(), a, "b")
	require.Error(w, a.Close(locktest.Ended()), "a lease was left")
	got := <-waiting
	require.ErrorIs(w, got.Err, signalbox.ErrClosed)
	<-h.Done()
	w.Unlocks(other)
	w.Free(b, "a")
	w.Free(b, "b")
	_, err := a.Lock("a").Lock(w.Context())
	require.ErrorIs(w, err, signalbox.ErrClosed)
	if !w.Virtual {
		return
	}
	require.NoError(w, b.Close(w.Context()))
	time.Sleep(15 * time.Second)
	w.NoSubscribers()
	require.Zero(w, goroutines())
	w.LeavesNothing(b, "a")
	w.LeavesNothing(b, "b")
}

// trial is one acquire and its release, of which one request has a fault.
type trial struct {
	name  string
	waits bool // the lock is held at first, and released after more than a poll
	try   bool // by TryLock
	at    int  // the number of the request
	fault Fault
}

// faultOfAcquire gives each fault to each request of an acquire and its release. A lease that was returned is held, an error leaves
// nothing, and in the end the lock is free, and stays with the next holder.
func faultOfAcquire(w *World, k Kind) {
	helper := w.Rival(k)
	for i, t := range []trial{{name: "free"}, {name: "held", waits: true}, {name: "try", try: true}} {
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
	call := p.Lock(name).Lock
	if t.try {
		call = p.Lock(name).TryLock
	}
	h, err := call(ctx)
	if err != nil && !t.try {
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
	next, err := helper.Lock(name).Lock(ctx)
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

// unlockWithoutReply cuts the wire before an Unlock. That returns after a second, and is repeated when the wire heals.
func unlockWithoutReply(w *World, k Kind) {
	a, b := w.Process(k), w.Rival(k)
	h := w.Holds(a, "a")
	time.Sleep(2 * time.Second)
	a.Silence()
	began := time.Now()
	require.ErrorIs(w, h.Unlock(), signalbox.ErrUnconfirmed)
	require.LessOrEqual(w, time.Since(began), time.Second+w.Grace)
	require.Error(w, h.Err())
	require.Error(w, h.Unlock())
	a.Heal()
	w.Unlocks(w.Gets(w.Waits(w.Context(), b, "a"), 4*time.Second))
}
