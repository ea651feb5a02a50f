// SPDX-License-Identifier: Apache-2.0

package waitroom

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/timers"
)

const keptFor = time.Second

// keptHold is a hold that may be kept, and ends when the test says so.
type keptHold struct {
	queue    *Room
	next     uint64 // the next token; a hold without one refuses to be used
	uses     int    // counts the uses after an idle time
	confirms int    // counts the calls of Confirm
	// confirmed has the results of Confirm: that the server has the hold, which has the token used then. Without it the server has not.
	confirmed chan bool
	used      uint64
	notKept   bool          // the hold may not be kept
	releases  chan struct{} // End waits for it
	ended     bool
}

// keeps lets a hold of the session be kept, with that next token.
func (r *rig) keeps(next uint64) *keptHold {
	r.Helper()
	h := &keptHold{queue: r.Room, next: next, releases: make(chan struct{})}
	r.HoldBegan(exclusiveKey)
	require.Equal(r, Kept, h.unlock())
	return h
}

func (h *keptHold) unlock() HandOverResult {
	return h.queue.HandOverOrKeep(timers.Now(), exclusiveKey, h, keptFor)
}

func (h *keptHold) MayKeep() bool { return !h.notKept }

func (h *keptHold) Use() { h.uses++ }

func (h *keptHold) Confirm(context.Context) bool {
	h.confirms++
	if h.confirmed != nil && <-h.confirmed {
		h.next = h.used
		return true
	}
	return false
}

func (h *keptHold) NextLease(timers.Instant) (hold.Lease, bool) {
	if h.next == 0 {
		return hold.Lease{}, false
	}
	return leased(h.next), true
}

func (h *keptHold) End() {
	<-h.releases
	h.ended = true
	h.queue.HoldEnded(exclusiveKey)
}

// requireEnds checks that End was called, and lets it return.
func (h *keptHold) requireEnds(r *rig) {
	r.Helper()
	require.False(r, h.ended)
	close(h.releases)
	synctest.Wait()
	require.True(r, h.ended)
	require.Zero(r, r.table.Idle())
}

// P7, P6: an idle hold is used by calls with its key, each of which begins a turn, and asks nothing. A call without an idle hold waits.
func TestIdleHoldIsUsedByTheNextCall(t *testing.T) {
	t.Parallel()
	inRig(t, func(r *rig) {
		h := r.keeps(7)
		require.Equal(t, 1, r.table.Idle())
		r.acquiresWith(exclusiveKey).requireHas(7)
		require.Zero(t, r.table.Idle())
		h.next = 8
		waiter := r.acquiresWith(exclusiveKey)
		waiter.requireWaits()
		require.Equal(t, HandedOver, h.unlock())
		synctest.Wait()
		waiter.requireHas(8)
		require.Equal(t, Kept, h.unlock())
		h.next = 9
		lease, began := r.UseOrTry(r.Context(), exclusiveKey)
		require.False(t, began)
		require.EqualValues(t, 9, lease.Token())
		require.Equal(t, 2, h.uses, "a hand-over is none")
		require.Zero(t, h.confirms)
		require.Empty(t, r.tickets)
		h.notKept = true
		require.Equal(t, NoWaiter, h.unlock())
		require.Zero(t, r.table.Idle())
		r.Forget(h)
		r.ends()
	})
}

// P1, P3: a hold that may not be used without the server is confirmed by the call that wants it, and others wait for that call. What the
// server has not, or another session wants, or was lost meanwhile, is ended, and the call asks for another one.
func TestIdleHoldIsConfirmedByTheCallThatUsesIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		meanwhile   func(r *rig, h *keptHold)
		isConfirmed bool
		used        bool
	}{
		"Confirmed": {isConfirmed: true, used: true},
		"Refused":   {},
		"Recalled":  {meanwhile: func(r *rig, h *keptHold) { require.False(r, r.Recall(h), "it is used") }, isConfirmed: true},
		"Lost":      {meanwhile: func(r *rig, h *keptHold) { r.Forget(h) }, isConfirmed: true},
		"Idle time": {meanwhile: func(*rig, *keptHold) { time.Sleep(2 * keptFor) }, isConfirmed: true, used: true},
		"Close":     {meanwhile: func(r *rig, _ *keptHold) { require.Empty(r, r.table.TakeIdle()) }, isConfirmed: true, used: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inRig(t, func(r *rig) {
				h := r.keeps(0)
				h.confirmed, h.used = make(chan bool), 7
				first, second := r.acquiresWith(exclusiveKey), r.acquiresWith(exclusiveKey)
				first.requireWaits()
				second.requireWaits()
				require.False(t, r.BeginTry(exclusiveKey))
				if c.meanwhile != nil {
					c.meanwhile(r, h)
				}
				h.confirmed <- c.isConfirmed
				synctest.Wait()
				require.Equal(t, 1, h.confirms)
				require.Zero(t, r.table.Idle())
				if c.used {
					first.requireHas(7)
					second.requireWaits()
					require.Equal(t, HandedOver, h.unlock())
					synctest.Wait()
					second.requireHas(7)
					r.Forget(h)
					r.ends()
					return
				}
				second.cancel()
				synctest.Wait()
				h.requireEnds(r)
				require.Len(t, r.tickets, 1, "it asks the server")
				r.tickets[0].token = 9
				r.joinReturns(nil)
				first.requireHas(9)
			})
		})
	}
}

// P6: a hold is idle for as long as its option says since its last use, and then it ends.
func TestIdleHoldEndsAfterItsTime(t *testing.T) {
	t.Parallel()
	inRig(t, func(r *rig) {
		h := r.keeps(7)
		time.Sleep(keptFor / 2)
		r.acquiresWith(exclusiveKey).requireHas(7)
		time.Sleep(keptFor)
		require.False(t, h.ended, "it is used")
		require.Equal(t, Kept, h.unlock())
		time.Sleep(keptFor / 2)
		r.acquiresWith(exclusiveKey).requireHas(7)
		require.Equal(t, Kept, h.unlock())
		time.Sleep(keptFor - 1)
		synctest.Wait()
		require.Equal(t, 1, r.table.Idle())
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		h.requireEnds(r)
	})
}

// P6: a recall ends an idle hold, and a hold that is used after an idle time is handed over no more. A hold that was never idle
// keeps its turn.
func TestRecallEndsAnIdleHold(t *testing.T) {
	t.Parallel()
	inRig(t, func(r *rig) {
		h := &keptHold{queue: r.Room, next: 7, releases: make(chan struct{})}
		r.HoldBegan(exclusiveKey)
		require.False(t, r.Recall(h))
		waiters := []*caller{r.acquiresWith(exclusiveKey), r.acquiresWith(exclusiveKey)}
		require.Equal(t, HandedOver, h.unlock())
		require.Equal(t, HandedOver, h.unlock())
		synctest.Wait()
		requireAllWait(nil, waiters...)
		require.Equal(t, Kept, h.unlock())
		r.acquiresWith(exclusiveKey).requireHas(7)
		waiter := r.acquiresWith(exclusiveKey)
		require.False(t, r.Recall(h), "it is used")
		require.Equal(t, Refused, h.unlock())
		waiter.cancel()
		synctest.Wait()
		require.Equal(t, Kept, h.unlock(), "only MayKeep says no")
		require.True(t, r.Recall(h))
		require.False(t, r.Recall(h), "it is ended once")
		r.ends()

		next := r.keeps(9)
		r.acquiresWith(exclusiveKey).requireHas(9)
		waiter = r.acquiresWith(exclusiveKey)
		require.Equal(t, HandedOver, next.unlock(), "the recall was of another hold")
		synctest.Wait()
		waiter.requireHas(9)
		r.Forget(next)
		r.ends()
	})
}

// P3, P6: a call that cannot use the idle hold ends it, and asks the server when that has replied. Without a token left, so does a
// call with the key of the hold, and all that come meanwhile wait behind it.
func TestIdleHoldThatCannotBeUsedIsEndedFirst(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		key  ShareKey
		next uint64
	}{"Alone": {ShareKey{}, 7}, "OtherTerms": {ShareKey{MaxHolds: 1, Lease: time.Minute}, 7}, "NoToken": {exclusiveKey, 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inRig(t, func(r *rig) {
				h := r.keeps(c.next)
				caller := r.acquiresWith(c.key)
				caller.requireWaits()
				require.Empty(t, r.tickets)
				h.requireEnds(r)
				require.Len(t, r.tickets, 1)
				r.tickets[0].token = 9
				r.joinReturns(nil)
				caller.requireHas(9)
			})
		})
	}
}

// P7: the queues of a session keep no more than 1,024 holds, and give all of them back together. A hold that was lost is forgotten.
func TestNoMoreThan1024HoldsAreIdle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ts := timers.New()
		defer ts.Close()
		table := NewTable(ts)
		for i := range maxIdle + 1 {
			q := table.Use(fmt.Sprint(i))
			q.HoldBegan(exclusiveKey)
			h := &keptHold{queue: q, next: 7}
			require.Equal(t, i < maxIdle, h.unlock() == Kept)
			if i == 0 {
				q.Forget(h)
				require.Zero(t, table.Idle())
				require.Equal(t, Kept, h.unlock())
			}
		}
		require.Equal(t, maxIdle, table.Idle())
		require.Len(t, table.TakeIdle(), maxIdle)
		require.Zero(t, table.Idle())
		require.Empty(t, table.TakeIdle())
		table.Use("0").HoldEnded(exclusiveKey) // it is as usable as before
	})
}

// isTrying ends a try that began, and returns false.
func (r *rig) isTrying(key ShareKey) bool {
	r.EndTry(key)
	return false
}

// P6: a try with another key, or of several locks, ends the idle hold and waits for that as long as its context lasts.
func TestTryThatCannotUseTheIdleHoldEndsItFirst(t *testing.T) {
	t.Parallel()
	for name, try := range map[string]func(ctx context.Context, r *rig) bool{
		"Alone": func(ctx context.Context, r *rig) bool {
			_, began := r.UseOrTry(ctx, ShareKey{})
			return began && !r.isTrying(ShareKey{})
		},
		"Joint": func(ctx context.Context, r *rig) bool {
			return r.TryJoint(ctx, exclusiveKey) && !r.isTrying(exclusiveKey)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inRig(t, func(r *rig) {
				h, began := r.keeps(7), make(chan bool, 1)
				go func() { began <- try(r.Context(), r) }()
				synctest.Wait()
				require.Empty(t, began)
				h.requireEnds(r)
				require.True(t, <-began)

				h = r.keeps(8)
				ended, cancel := context.WithCancel(r.Context())
				cancel()
				try(ended, r)
				synctest.Wait()
				h.requireEnds(r)
			})
		})
	}
}
