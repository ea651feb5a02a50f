// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// exclusiveKey is a key with which a session can have one hold.
var exclusiveKey = ShareKey{MaxHolds: 1}

// holds lets the newest Join be granted a hold with that token, which the session counts.
func (m *rig) holds(token uint64) {
	m.Helper()
	m.HoldBegan(exclusiveKey)
	m.tickets[len(m.tickets)-1].token = token
	m.joinReturns(nil)
}

// ends lets a hold end, which the session no longer counts.
func (m *rig) ends() {
	m.HoldEnded(exclusiveKey)
	synctest.Wait()
}

// behindAHold begins n calls that wait while the session holds.
func (m *rig) behindAHold(n int) []*caller {
	m.Helper()
	holder := m.acquiresWith(exclusiveKey)
	m.holds(1)
	holder.requireHas(1)
	var callers []*caller
	for range n {
		callers = append(callers, m.acquiresWith(exclusiveKey))
	}
	require.Len(m, m.tickets, 1, "a waiter asks the server while the session holds")
	return callers
}

// assignsTicket gives a waiter a ticket that is in the server's queue.
func (m *rig) assignsTicket() *fakeTicket {
	m.Helper()
	p := newTicket()
	p.queued.Store(true)
	require.True(m, m.AssignTicket(exclusiveKey, p))
	synctest.Wait()
	return p
}

func TestMaxHoldsOne_OneAsks_OthersWait(t *testing.T) {
	t.Parallel()
	inRig(t, func(m *rig) {
		callers := []*caller{m.acquiresWith(exclusiveKey), m.acquiresWith(exclusiveKey), m.acquiresWith(exclusiveKey)}
		require.Len(t, m.tickets, 1, "two ask the server")
		m.holds(1)
		callers[0].requireHas(1)
		requireAllWait(callers[1:])
		require.Len(t, m.tickets, 1, "a waiter asks while the session holds")
		require.Equal(t, HandedOver, m.HandOver(testTime, exclusiveKey, handOver(2)))
		synctest.Wait()
		callers[1].requireHas(2)
		m.ends()
		require.Len(t, m.tickets, 2)
		m.holds(3)
		callers[2].requireHas(3)
		m.ends()
	})
}

// The end of a hold sends one waiter, and what that gets goes to the first one.
func TestMaxHoldsOne_HoldEnds_NextWaiterIsSent(t *testing.T) {
	t.Parallel()
	inRig(t, func(m *rig) {
		callers := m.behindAHold(3)
		for i, g := range callers {
			m.ends()
			require.Len(t, m.tickets, i+2, "one is sent")
			m.holds(uint64(i + 2))
			g.requireHas(uint64(i + 2))
			requireAllWait(callers[i+1:])
		}
		m.ends()
	})
}

// A goroutine that fails at the server sends the next one.
func TestMaxHoldsOne_AskFails_NextWaiterIsSent(t *testing.T) {
	t.Parallel()
	inRig(t, func(m *rig) {
		callers := []*caller{m.acquiresWith(exclusiveKey), m.acquiresWith(exclusiveKey), m.acquiresWith(exclusiveKey)}
		m.joinReturns(errFalls)
		callers[0].requireFailed(errFalls)
		require.Len(t, m.tickets, 2)
		m.errs = []error{errFalls}
		m.joinReturns(errFalls)
		callers[2].requireFailed(errFalls)
		callers[1].requireFailed(errFalls) // it could not make a ticket
	})
}

// T4: a requeued ticket goes to a waiter, and the end of the old hold sends no other one.
func TestMaxHoldsOne_AssignTicket_AWaiterHasIt(t *testing.T) {
	t.Parallel()
	inRig(t, func(m *rig) {
		require.False(t, m.AssignTicket(exclusiveKey, newTicket()), "no goroutine waits")
		callers := m.behindAHold(2)
		p := m.assignsTicket()
		p.requireKept(t)
		m.ends()
		require.Len(t, m.tickets, 1, "another one asks as well")
		m.HoldBegan(exclusiveKey)
		p.grant(7)
		callers[0].requireHas(7)
		callers[1].requireWaits()
		require.Len(t, m.tickets, 1)
		m.ends()
		m.holds(8)
		callers[1].requireHas(8)
		m.ends()
	})
}

// T7: another waiter keeps the ticket if the one that has it gives up, even if the session still counts the
// old hold.
func TestMaxHoldsOne_SentWaiterGivesUp_TicketIsKept(t *testing.T) {
	t.Parallel()
	inRig(t, func(m *rig) {
		callers := m.behindAHold(3)
		p := m.assignsTicket()
		callers[2].cancel()
		synctest.Wait()
		callers[2].requireFailed(context.Canceled)
		p.requireKept(t)
		m.ends()
		callers[1].cancel()
		synctest.Wait()
		p.requireKept(t)
		callers[0].cancel()
		synctest.Wait()
		p.requireLeft(t, context.Canceled)
		require.Len(t, m.tickets, 1)
	})
}

func TestMaxHoldsOne_Try_KeepsOthersBack(t *testing.T) {
	t.Parallel()
	inRig(t, func(m *rig) {
		require.True(t, m.BeginTry(exclusiveKey))
		require.False(t, m.BeginTry(exclusiveKey), "another one tries")
		g := m.acquiresWith(exclusiveKey)
		require.Empty(t, m.tickets)
		require.False(t, m.BeginTry(exclusiveKey), "a goroutine waits")
		require.False(t, m.BeginTry(ShareKey{}), "it overtakes a waiter with another key")
		m.HoldBegan(exclusiveKey)
		m.EndTry(exclusiveKey)
		synctest.Wait()
		require.Empty(t, m.tickets, "the session holds")
		m.ends()
		m.holds(2)
		g.requireHas(2)
		require.False(t, m.BeginTry(exclusiveKey), "the session holds")
		m.ends()
		require.True(t, m.BeginTry(exclusiveKey))
		late := m.acquiresWith(exclusiveKey)
		m.EndTry(exclusiveKey)
		synctest.Wait()
		m.holds(3)
		late.requireHas(3)
		m.ends()
	})
}

// P6: waiters behind a hold are refused at once, and a late one is not queued.
func TestMaxHoldsOne_Refuse_EndsAllWaits(t *testing.T) {
	t.Parallel()
	inRig(t, func(m *rig) {
		callers := m.behindAHold(3)
		m.closed = errFalls
		m.table.Refuse(errFalls)
		synctest.Wait()
		for _, g := range append(callers, m.acquiresWith(exclusiveKey)) {
			g.requireFailed(errFalls)
		}
		m.ends()
		require.Len(t, m.tickets, 1)
	})
}

// With two holds a third goroutine waits, and each hold that ends serves one.
func TestMaxHoldsTwo_TwoHold_ThirdWaits(t *testing.T) {
	t.Parallel()
	two := ShareKey{MaxHolds: 2}
	inRig(t, func(m *rig) {
		callers := []*caller{m.acquiresWith(two), m.acquiresWith(two), m.acquiresWith(two), m.acquiresWith(two)}
		require.Len(t, m.tickets, 2)
		for i, p := range m.tickets {
			m.HoldBegan(two)
			p.token = uint64(i + 1)
			p.joinResult <- nil
			synctest.Wait()
			callers[i].requireHas(uint64(i + 1))
		}
		require.Len(t, m.tickets, 2)
		m.HoldEnded(two)
		m.HoldEnded(two)
		synctest.Wait()
		require.Len(t, m.tickets, 3, "one asks after the other")
		for i := 2; i < 4; i++ {
			m.HoldBegan(two)
			m.tickets[i].token = uint64(i + 1)
			m.joinReturns(nil)
			callers[i].requireHas(uint64(i + 1))
		}
		m.HoldEnded(two)
		m.HoldEnded(two)
	})
}
