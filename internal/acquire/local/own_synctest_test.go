// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// With ownKey each goroutine asks for itself. With ownConcurrentKey a session can also have many holds.
var (
	ownKey           = ShareKey{Policy: Own, MaxHolds: 1}
	ownConcurrentKey = ShareKey{Policy: Own, Concurrent: true}
)

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

// idle -> requesting -> served: the first waiter asks next, with a ticket of its own, and has what that is granted.
func TestOwn_HoldEnds_FirstWaiterAsksForItself(t *testing.T) {
	t.Parallel()
	inRig(t, func(r *rig) {
		callers := []*caller{r.acquiresWith(ownKey), r.acquiresWith(ownKey), r.acquiresWith(ownKey)}
		for i, c := range callers {
			require.Len(t, r.tickets, i+1, "one asks at a time")
			r.grants(ownKey, uint64(i+1))
			c.requireHas(uint64(i + 1))
			requireAllWait(callers[i+1:])
			r.finishes(ownKey)
		}
	})
}

// joined -> served: what a ticket is granted goes to the goroutine that waits with it, also if another one is before it in
// the queue.
func TestOwn_GrantGoesToTheTicketsWaiter(t *testing.T) {
	t.Parallel()
	inRig(t, func(r *rig) {
		callers := []*caller{r.acquiresWith(ownConcurrentKey), r.acquiresWith(ownConcurrentKey)}
		r.joinReturns(errWaits) // to the first one, which becomes a waiter now
		r.HoldBegan(ownConcurrentKey)
		r.tickets[0].grant(1)
		callers[0].requireHas(1)
		callers[1].requireWaits()
		r.grants(ownConcurrentKey, 2)
		callers[1].requireHas(2)
		r.finishes(ownConcurrentKey)
		r.finishes(ownConcurrentKey)
	})
}

// One goroutine asks at a time, also for what many can have: each that has it, or gives up, sends the next one at once.
func TestOwn_ManyHolds_OneAsksAtATime(t *testing.T) {
	t.Parallel()
	inRig(t, func(r *rig) {
		callers := []*caller{r.acquiresWith(ownConcurrentKey), r.acquiresWith(ownConcurrentKey), r.acquiresWith(ownConcurrentKey), r.acquiresWith(ownConcurrentKey)}
		r.grants(ownConcurrentKey, 1)
		callers[0].requireHas(1)
		require.Len(t, r.tickets, 2)
		r.joinReturns(errWaits)
		require.Len(t, r.tickets, 2, "another one asks for the same message")
		callers[1].cancel()
		synctest.Wait()
		callers[1].requireFailed(context.Canceled)
		require.Len(t, r.tickets, 3)
		r.joinReturns(errWaits)
		r.HoldBegan(ownConcurrentKey)
		r.tickets[2].grant(3)
		callers[2].requireHas(3)
		r.grants(ownConcurrentKey, 4)
		callers[3].requireHas(4)
		late := r.acquiresWith(ownConcurrentKey)
		require.Len(t, r.tickets, 5, "it waits for no hold")
		r.grants(ownConcurrentKey, 5)
		late.requireHas(5)
		for range 4 {
			r.finishes(ownConcurrentKey)
		}
	})
}

// A goroutine that does not wait asks beside one that asks, and is refused while one waits. A hold goes to no other goroutine.
func TestOwn_TryIsRefusedByWaitersAlone(t *testing.T) {
	t.Parallel()
	inRig(t, func(r *rig) {
		first := r.acquiresWith(ownConcurrentKey)
		require.True(t, r.BeginTry(ownConcurrentKey))
		r.EndTry(ownConcurrentKey)
		r.joinReturns(errWaits)
		require.False(t, r.BeginTry(ownConcurrentKey))
		require.False(t, r.BeginTry(permitKey))
		require.Equal(t, NoWaiter, r.HandOver(testTime, ownConcurrentKey, handOver(7)))
		r.HoldBegan(ownConcurrentKey)
		r.tickets[0].grant(1)
		first.requireHas(1)
		r.finishes(ownConcurrentKey)
	})
}

// requesting -> gone: the first waiter that fails sends the next one, which makes a ticket of its own.
func TestOwn_AskFails_NextWaiterAsks(t *testing.T) {
	t.Parallel()
	inRig(t, func(r *rig) {
		callers := []*caller{r.acquiresWith(ownKey), r.acquiresWith(ownKey), r.acquiresWith(ownKey), r.acquiresWith(ownKey)}
		r.joinReturns(errFalls)
		callers[0].requireFailed(errFalls)
		r.tickets[0].requireLeft(t, errFalls)
		r.joinReturns(errFalls)
		callers[1].requireFailed(errFalls)
		r.errs = []error{errFalls}
		r.joinReturns(errFalls)
		callers[2].requireFailed(errFalls)
		callers[3].requireFailed(errFalls) // it could not make a ticket
		require.Len(t, r.tickets, 3)
	})
}

// joined -> gone, requesting -> gone: a ticket is left to no other goroutine.
func TestOwn_WaiterGivesUp_TicketIsLeft(t *testing.T) {
	t.Parallel()
	inRig(t, func(r *rig) {
		callers := []*caller{r.acquiresWith(ownKey), r.acquiresWith(ownKey), r.acquiresWith(ownKey)}
		r.joinReturns(errWaits)
		callers[0].cancel()
		synctest.Wait()
		callers[0].requireFailed(context.Canceled)
		r.tickets[0].requireLeft(t, context.Canceled)
		require.Len(t, r.tickets, 2, "the next one asks")
		callers[1].cancel() // on its way
		synctest.Wait()
		callers[1].requireFailed(context.Canceled)
		r.tickets[1].requireLeft(t, context.Canceled)
		require.Len(t, r.tickets, 3)
		r.grants(ownKey, 3)
		callers[2].requireHas(3)
		r.finishes(ownKey)
	})
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

// idle -> gone: waiters that only wait are refused, or give up, and the goroutine that asks is not.
func TestOwn_IdleWaiters_AreRefusedOrGiveUp(t *testing.T) {
	t.Parallel()
	inRig(t, func(r *rig) {
		callers := []*caller{r.acquiresWith(ownKey), r.acquiresWith(ownKey), r.acquiresWith(ownKey)}
		callers[1].cancel()
		synctest.Wait()
		callers[1].requireFailed(context.Canceled)
		r.table.Refuse(errFalls)
		synctest.Wait()
		callers[2].requireFailed(errFalls)
		callers[0].requireWaits()
		r.grants(ownKey, 1)
		callers[0].requireHas(1)
		r.finishes(ownKey)
		require.Len(t, r.tickets, 1)
	})
}
