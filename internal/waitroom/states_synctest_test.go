// SPDX-License-Identifier: Apache-2.0

package waitroom

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBehindAWaiterNewcomersHaveNoTicket(t *testing.T) {
	t.Parallel()
	inRig(t, func(r *rig) {
		callers := r.queued(3)
		requireAllWait(callers)
		for i, c := range callers {
			require.Equal(t, HandedOver, r.handsOver(uint64(i+1)))
			c.requireHas(uint64(i + 1))
			requireAllWait(callers[i+1:])
		}
		r.tickets[0].requireLeft(t, errServed)
		require.Equal(t, NoWaiter, r.handsOver(9))
	})
}

// P6: a goroutine that only waits for others is refused at once, however long the call of the goroutine
// that asks takes.
func TestWaitersForOthersAreRefusedAtOnce(t *testing.T) {
	t.Parallel()
	inRig(t, func(r *rig) {
		callers := r.queued(3)
		r.tickets[0].grant(1)
		callers[0].requireHas(1)
		require.Equal(t, int32(1), r.tickets[1].joining.Load(), "the last one asks")
		callers = append(callers, r.acquires())
		r.closed = errFalls
		r.table.Refuse(errFalls)
		synctest.Wait()
		callers[1].requireFailed(errFalls)
		callers[3].requireFailed(errFalls)
		callers[2].requireWaits()
		late := r.acquires()
		late.requireFailed(errFalls)
		require.Len(t, r.tickets, 2, "it does not ask")
		r.joinReturns(errWaits)
		r.table.Refuse(errFalls) // a queued waiter learns of it from the queue
		callers[2].requireWaits()
		r.tickets[1].granted <- errFalls
		synctest.Wait()
		callers[2].requireFailed(errFalls)
	})
}

// P7: keys without a waiter leave nothing behind, however many different ones there were.
func TestThereAreAsManyWaitlistsAsKeysInUse(t *testing.T) {
	t.Parallel()
	inRig(t, func(r *rig) {
		callers := r.queued(2)
		for n := range 100 {
			key := ShareKey{Permits: int32(n + 2)}
			other := r.acquiresWith(key)
			r.joinReturns(errWaits)
			also := r.acquiresWith(key)
			other.cancel()
			synctest.Wait()
			other.requireFailed(context.Canceled)
			require.Equal(t, HandedOver, r.HandOver(testTime, key, handOver(7)))
			synctest.Wait()
			also.requireHas(7)
			r.tickets[n+1].requireLeft(t, errServed)
		}
		waitlists := 0
		for range r.listsLocked() {
			waitlists++
		}
		require.Equal(t, 2, waitlists)
		requireAllWait(callers)
		require.Equal(t, HandedOver, r.handsOver(1))
		require.Equal(t, HandedOver, r.handsOver(2))
	})
}

// requesting: a waiter that is sent in the instant in which it gives up does not leave before it has read that.
func TestAWaiterThatWasSentDoesNotLeaveUnread(t *testing.T) {
	t.Parallel()
	table := newTable(t)
	q := table.Use("a")
	s := Acquisition{Room: q, waitlist: q.findOrAddLocked(permitKey), waiter: table.getWaiter()}
	s.waitlist.append(q, s.waiter)
	s.waitlist.sendIfNeeded()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, left := s.leave(ended)
	require.False(t, left)
	require.True(t, (<-s.waiter.events).request)
}

// With ownKey each goroutine asks for itself.
var ownKey = ShareKey{Policy: Own, MaxHolds: 1}

// grants lets the newest Join be granted a hold with that key, which the session counts.
func (r *rig) grants(key ShareKey, token uint64) {
	r.Helper()
	r.HoldBegan(key)
	r.tickets[len(r.tickets)-1].token = token
	r.joinReturns(nil)
}

// finishes ends a hold with that key, which the session no longer counts.
func (r *rig) finishes(key ShareKey) {
	r.Helper()
	r.HoldEnded(key)
	synctest.Wait()
}

// joined -> gone: what is granted in the instant in which the waiter gives up is its own.
func TestOwn_GivesUpWhenGranted_HasIt(t *testing.T) {
	t.Parallel()
	inRig(t, func(r *rig) {
		callers := []*caller{r.acquiresWith(ownKey), r.acquiresWith(ownKey)}
		r.joinReturns(errWaits)
		r.HoldBegan(ownKey)
		r.tickets[0].token = 7
		callers[0].cancel()
		synctest.Wait()
		callers[0].requireHas(7)
		callers[1].requireWaits()
		r.finishes(ownKey)
		r.grants(ownKey, 8)
		callers[1].requireHas(8)
		r.finishes(ownKey)
	})
}

// scarce gives the session a hold that a goroutine waited for at the server.
func (r *rig) scarce() {
	r.Helper()
	c := r.acquires()
	r.joinReturns(errWaits)
	r.HoldBegan(permitKey)
	r.tickets[0].grant(1)
	c.requireHas(1)
	require.Len(r, r.tickets, 1)
}

// sleeps lets time pass.
func (r *rig) sleeps(d time.Duration) {
	r.Helper()
	r.ticketsMu.Lock()
	r.ticketsMu.Unlock() //nolint:staticcheck // what the test read is read
	time.Sleep(d)
	synctest.Wait()
}

// later lets a while pass, after which a waiter asks the server.
func (r *rig) later() {
	r.Helper()
	r.sleeps(sendDelay)
}

// T1: two goroutines hand a hold of what is scarce back and forth, and send nothing.
func TestScarceHoldIsWaitedForInTheProcess(t *testing.T) {
	t.Parallel()
	inRig(t, func(r *rig) {
		r.scarce()
		for token := uint64(2); token < 9; token++ {
			c := r.acquires()
			require.Equal(t, HandedOver, r.handsOver(token))
			c.requireHas(token)
		}
		require.Len(t, r.tickets, 1, "one asked the server")
		r.later()
		require.Len(t, r.tickets, 1, "no goroutine waits")
		r.HoldEnded(permitKey)
	})
}

// What the server grants at once is not scarce: those that come then ask side by side.
func TestGrantAtOnceEndsScarcity(t *testing.T) {
	t.Parallel()
	inRig(t, func(r *rig) {
		r.scarce()
		c := r.acquires()
		r.later()
		r.HoldBegan(permitKey)
		r.tickets[1].token = 2
		r.joinReturns(nil)
		c.requireHas(2)
		both := []*caller{r.acquires(), r.acquires()}
		require.Len(t, r.tickets, 4)
		for i, c := range both {
			r.tickets[2+i].token = uint64(3 + i)
			r.tickets[2+i].joinResult <- nil
			synctest.Wait()
			c.requireHas(uint64(3 + i))
		}
		r.HoldEnded(permitKey)
		r.HoldEnded(permitKey)
	})
}
