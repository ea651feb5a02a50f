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
func (m *rig) grants(r ShareKey, token uint64) {
	m.Helper()
	m.HoldBegan(r)
	m.tickets[len(m.tickets)-1].token = token
	m.joinReturns(nil)
}

// finishes ends a hold with that key, which the session no longer counts.
func (m *rig) finishes(r ShareKey) {
	m.Helper()
	m.HoldEnded(r)
	synctest.Wait()
}

// idle -> fetching -> served: the first waiter asks next, with a ticket of its own, and has what that is granted.
func TestOwn_HoldEnds_FirstWaiterAsksForItself(t *testing.T) {
	t.Parallel()
	inRig(t, func(m *rig) {
		callers := []*caller{m.acquiresWith(ownKey), m.acquiresWith(ownKey), m.acquiresWith(ownKey)}
		for i, g := range callers {
			require.Len(t, m.tickets, i+1, "one asks at a time")
			m.grants(ownKey, uint64(i+1))
			g.requireHas(uint64(i + 1))
			requireAllWait(callers[i+1:])
			m.finishes(ownKey)
		}
	})
}

// joined -> served: what a ticket is granted goes to the goroutine that waits with it, also if another one is before it in
// the queue.
func TestOwn_GrantGoesToTheTicketsWaiter(t *testing.T) {
	t.Parallel()
	inRig(t, func(m *rig) {
		callers := []*caller{m.acquiresWith(ownConcurrentKey), m.acquiresWith(ownConcurrentKey)}
		m.joinReturns(errWaits) // to the first one, which becomes a waiter now
		m.HoldBegan(ownConcurrentKey)
		m.tickets[0].grant(1)
		callers[0].requireHas(1)
		callers[1].requireWaits()
		m.grants(ownConcurrentKey, 2)
		callers[1].requireHas(2)
		m.finishes(ownConcurrentKey)
		m.finishes(ownConcurrentKey)
	})
}

// One goroutine asks at a time, also for what many can have: each that has it, or gives up, sends the next one at once.
func TestOwn_ManyHolds_OneAsksAtATime(t *testing.T) {
	t.Parallel()
	inRig(t, func(m *rig) {
		callers := []*caller{m.acquiresWith(ownConcurrentKey), m.acquiresWith(ownConcurrentKey), m.acquiresWith(ownConcurrentKey), m.acquiresWith(ownConcurrentKey)}
		m.grants(ownConcurrentKey, 1)
		callers[0].requireHas(1)
		require.Len(t, m.tickets, 2)
		m.joinReturns(errWaits)
		require.Len(t, m.tickets, 2, "another one asks for the same message")
		callers[1].cancel()
		synctest.Wait()
		callers[1].requireFailed(context.Canceled)
		require.Len(t, m.tickets, 3)
		m.joinReturns(errWaits)
		m.HoldBegan(ownConcurrentKey)
		m.tickets[2].grant(3)
		callers[2].requireHas(3)
		m.grants(ownConcurrentKey, 4)
		callers[3].requireHas(4)
		late := m.acquiresWith(ownConcurrentKey)
		require.Len(t, m.tickets, 5, "it waits for no hold")
		m.grants(ownConcurrentKey, 5)
		late.requireHas(5)
		for range 4 {
			m.finishes(ownConcurrentKey)
		}
	})
}

// A goroutine that does not wait asks beside one that asks, and is refused while one waits. A hold goes to no other goroutine.
func TestOwn_TryIsRefusedByWaitersAlone(t *testing.T) {
	t.Parallel()
	inRig(t, func(m *rig) {
		asks := m.acquiresWith(ownConcurrentKey)
		require.True(t, m.BeginTry(ownConcurrentKey))
		m.EndTry(ownConcurrentKey)
		m.joinReturns(errWaits)
		require.False(t, m.BeginTry(ownConcurrentKey))
		require.False(t, m.BeginTry(permitKey))
		require.Equal(t, NoWaiter, m.HandOver(testTime, ownConcurrentKey, handOver(7)))
		m.HoldBegan(ownConcurrentKey)
		m.tickets[0].grant(1)
		asks.requireHas(1)
		m.finishes(ownConcurrentKey)
	})
}

// fetching -> gone: the first waiter that fails sends the next one, which makes a ticket of its own.
func TestOwn_AskFails_NextWaiterAsks(t *testing.T) {
	t.Parallel()
	inRig(t, func(m *rig) {
		callers := []*caller{m.acquiresWith(ownKey), m.acquiresWith(ownKey), m.acquiresWith(ownKey), m.acquiresWith(ownKey)}
		m.joinReturns(errFalls)
		callers[0].requireFailed(errFalls)
		m.tickets[0].requireLeft(t, errFalls)
		m.joinReturns(errFalls)
		callers[1].requireFailed(errFalls)
		m.errs = []error{errFalls}
		m.joinReturns(errFalls)
		callers[2].requireFailed(errFalls)
		callers[3].requireFailed(errFalls) // it could not make a ticket
		require.Len(t, m.tickets, 3)
	})
}

// joined -> gone, fetching -> gone: a ticket is left to no other goroutine.
func TestOwn_WaiterGivesUp_TicketIsLeft(t *testing.T) {
	t.Parallel()
	inRig(t, func(m *rig) {
		callers := []*caller{m.acquiresWith(ownKey), m.acquiresWith(ownKey), m.acquiresWith(ownKey)}
		m.joinReturns(errWaits)
		callers[0].cancel()
		synctest.Wait()
		callers[0].requireFailed(context.Canceled)
		m.tickets[0].requireLeft(t, context.Canceled)
		require.Len(t, m.tickets, 2, "the next one asks")
		callers[1].cancel() // on its way
		synctest.Wait()
		callers[1].requireFailed(context.Canceled)
		m.tickets[1].requireLeft(t, context.Canceled)
		require.Len(t, m.tickets, 3)
		m.grants(ownKey, 3)
		callers[2].requireHas(3)
		m.finishes(ownKey)
	})
}

// joined -> gone: what is granted in the instant in which the waiter gives up is its own.
func TestOwn_GivesUpWhenGranted_HasIt(t *testing.T) {
	t.Parallel()
	inRig(t, func(m *rig) {
		callers := []*caller{m.acquiresWith(ownKey), m.acquiresWith(ownKey)}
		m.joinReturns(errWaits)
		m.HoldBegan(ownKey)
		m.tickets[0].token = 7
		callers[0].cancel()
		synctest.Wait()
		callers[0].requireHas(7)
		callers[1].requireWaits()
		m.finishes(ownKey)
		m.grants(ownKey, 8)
		callers[1].requireHas(8)
		m.finishes(ownKey)
	})
}

// idle -> gone: waiters that only wait are refused, or give up, and the goroutine that asks is not.
func TestOwn_IdleWaiters_AreRefusedOrGiveUp(t *testing.T) {
	t.Parallel()
	inRig(t, func(m *rig) {
		callers := []*caller{m.acquiresWith(ownKey), m.acquiresWith(ownKey), m.acquiresWith(ownKey)}
		callers[1].cancel()
		synctest.Wait()
		callers[1].requireFailed(context.Canceled)
		m.table.Refuse(errFalls)
		synctest.Wait()
		callers[2].requireFailed(errFalls)
		callers[0].requireWaits()
		m.grants(ownKey, 1)
		callers[0].requireHas(1)
		m.finishes(ownKey)
		require.Len(t, m.tickets, 1)
	})
}
