// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// scarce gives the session a hold that a goroutine waited for at the server.
func (m *rig) scarce() {
	m.Helper()
	g := m.acquires()
	m.joinReturns(errWaits)
	m.HoldBegan(permitKey)
	m.tickets[0].grant(1)
	g.requireHas(1)
	require.Len(m, m.tickets, 1)
}

// sleeps lets time pass.
func (m *rig) sleeps(d time.Duration) {
	m.Helper()
	m.ticketsMu.Lock()
	m.ticketsMu.Unlock() //nolint:staticcheck // what the test read is read
	time.Sleep(d)
	synctest.Wait()
}

// later lets a while pass, after which a waiter asks the server.
func (m *rig) later() {
	m.Helper()
	m.sleeps(fetchDelay)
}

// T1: two goroutines hand a hold of what is scarce back and forth, and send nothing.
func TestScarceHoldIsWaitedForInTheProcess(t *testing.T) {
	t.Parallel()
	inRig(t, func(m *rig) {
		m.scarce()
		for token := uint64(2); token < 9; token++ {
			g := m.acquires()
			require.Equal(t, HandedOver, m.handsOver(token))
			g.requireHas(token)
		}
		require.Len(t, m.tickets, 1, "one asked the server")
		m.later()
		require.Len(t, m.tickets, 1, "no goroutine waits")
		m.HoldEnded(permitKey)
	})
}

// T1: while a goroutine asks for what is scarce, another one waits for what it gets.
func TestScarceRequesterIsWaitedFor(t *testing.T) {
	t.Parallel()
	inRig(t, func(m *rig) {
		m.scarce()
		g := []*caller{m.acquires(), m.acquires()}
		m.HoldEnded(permitKey)
		synctest.Wait()
		require.Len(t, m.tickets, 2, "one asks when the last hold is over")
		m.joinReturns(errWaits)
		late := m.acquires()
		require.Len(t, m.tickets, 2)
		m.HoldBegan(permitKey)
		m.tickets[1].grant(2)
		g[0].requireHas(2)
		require.Equal(t, HandedOver, m.handsOver(3))
		g[1].requireHas(3)
		require.Equal(t, HandedOver, m.handsOver(4))
		late.requireHas(4)
		m.HoldEnded(permitKey)
	})
}

// P6: a hold that is used for long keeps a waiter from the server for a while only, and a ticket stays with the waiters.
func TestScarceHoldThatIsKeptForLongSendsAWaiter(t *testing.T) {
	t.Parallel()
	inRig(t, func(m *rig) {
		m.scarce()
		first, second := m.acquires(), m.acquires()
		m.sleeps(fetchDelay - time.Millisecond)
		require.Len(t, m.tickets, 1)
		m.later()
		require.Len(t, m.tickets, 2)
		m.joinReturns(errWaits)
		require.Equal(t, HandedOver, m.handsOver(2))
		first.requireHas(2)
		m.tickets[1].requireKept(t)
		require.Equal(t, HandedOver, m.handsOver(3))
		second.requireHas(3)
		m.tickets[1].requireLeft(t, errServed)
		third := m.acquires()
		require.Len(t, m.tickets, 2)
		m.later()
		require.Len(t, m.tickets, 3, "each time")
		m.joinReturns(errWaits)
		require.Equal(t, HandedOver, m.handsOver(4))
		third.requireHas(4)
		m.HoldEnded(permitKey)
	})
}

// What the server grants at once is not scarce: those that come then ask side by side.
func TestGrantAtOnceEndsScarcity(t *testing.T) {
	t.Parallel()
	inRig(t, func(m *rig) {
		m.scarce()
		g := m.acquires()
		m.later()
		m.HoldBegan(permitKey)
		m.tickets[1].token = 2
		m.joinReturns(nil)
		g.requireHas(2)
		both := []*caller{m.acquires(), m.acquires()}
		require.Len(t, m.tickets, 4)
		for i, g := range both {
			m.tickets[2+i].token = uint64(3 + i)
			m.tickets[2+i].joinResult <- nil
			synctest.Wait()
			g.requireHas(uint64(3 + i))
		}
		m.HoldEnded(permitKey)
		m.HoldEnded(permitKey)
	})
}

// A try asks the server, also if permits are scarce.
func TestScarceHoldKeepsNoTryBack(t *testing.T) {
	t.Parallel()
	inRig(t, func(m *rig) {
		m.scarce()
		require.True(t, m.BeginTry(permitKey))
		m.EndTry(permitKey)
		m.HoldEnded(permitKey)
	})
}

// P6: what a waiter waits for in the process does not come: the hold is lost, the one that asks fails, or gives up. Another
// one asks at once.
func TestScarceHoldThatIsLostSendsAWaiterAtOnce(t *testing.T) {
	t.Parallel()
	inRig(t, func(m *rig) {
		m.scarce()
		g := []*caller{m.acquires(), m.acquires(), m.acquires()}
		require.Len(t, m.tickets, 1)
		m.HoldEnded(permitKey)
		synctest.Wait()
		require.Len(t, m.tickets, 2)
		m.joinReturns(errFalls)
		g[2].requireFailed(errFalls)
		require.Len(t, m.tickets, 3)
		g[1].cancel() // on its way to the server
		synctest.Wait()
		g[1].requireFailed(context.Canceled)
		m.HoldBegan(permitKey)
		m.tickets[2].token = 2
		m.tickets[2].joinResult <- nil
		synctest.Wait()
		g[0].requireHas(2)
		m.HoldEnded(permitKey)
	})
}

// P6: a goroutine that asks at the side of no waiter fails, or tries in vain, and the one that came meanwhile asks at once.
func TestScarceRequesterThatFailsSendsAWaiterAtOnce(t *testing.T) {
	t.Parallel()
	inRig(t, func(m *rig) {
		m.scarce()
		require.True(t, m.BeginTry(permitKey))
		m.HoldEnded(permitKey)
		first := m.acquires()
		require.Len(t, m.tickets, 1, "a try asks")
		m.EndTry(permitKey)
		synctest.Wait()
		require.Len(t, m.tickets, 2)
		second := m.acquires()
		first.cancel()
		synctest.Wait()
		first.requireFailed(context.Canceled)
		require.Len(t, m.tickets, 2, "the second has the ticket of the first")
		second.cancel()
		synctest.Wait()
		second.requireFailed(context.Canceled)
	})
}

// P6: waiters for what is scarce are refused like others, and nothing asks the server afterwards.
func TestScarceHoldKeepsNoWaiterThatIsRefused(t *testing.T) {
	t.Parallel()
	inRig(t, func(m *rig) {
		m.scarce()
		g := []*caller{m.acquires(), m.acquires()}
		m.closed = errFalls
		m.table.Refuse(errFalls)
		synctest.Wait()
		for _, g := range append(g, m.acquires()) {
			g.requireFailed(errFalls)
		}
		m.later()
		require.Len(t, m.tickets, 1)
		m.HoldEnded(permitKey)
	})
}

// P6: a hold is waited for by those with the same key alone. Others ask the server, since it is not handed over to them.
func TestScarceHoldIsNotWaitedForWithOtherKeys(t *testing.T) {
	t.Parallel()
	inRig(t, func(m *rig) {
		m.scarce()
		same, other := m.acquires(), m.acquiresWith(ShareKey{Permits: 2})
		require.Len(t, m.tickets, 2)
		m.joinReturns(errWaits)
		m.tickets[1].grant(2)
		other.requireHas(2)
		m.HoldEnded(permitKey)
		synctest.Wait()
		require.Len(t, m.tickets, 3)
		m.joinReturns(errWaits)
		m.tickets[2].grant(3)
		same.requireHas(3)
	})
}
