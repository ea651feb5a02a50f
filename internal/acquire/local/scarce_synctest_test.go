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
	g := m.takes()
	m.enterReturns(errWaits)
	m.HoldBegan(like)
	m.tickets[0].grant(1)
	g.requireHas(1)
	require.Len(m, m.tickets, 1)
}

// sleeps lets time pass.
func (m *rig) sleeps(d time.Duration) {
	m.Helper()
	m.asks.Lock()
	m.asks.Unlock() //nolint:staticcheck // what the test read is read
	time.Sleep(d)
	synctest.Wait()
}

// later lets a while pass, after which a waiter asks the server.
func (m *rig) later() {
	m.Helper()
	m.sleeps(sendsAfter)
}

// T1: two goroutines hand a hold of what is scarce back and forth, and send nothing.
func TestScarceHoldIsWaitedForInTheProcess(t *testing.T) {
	t.Parallel()
	inRig(t, func(m *rig) {
		m.scarce()
		for token := uint64(2); token < 9; token++ {
			g := m.takes()
			require.Equal(t, HandedOver, m.passes(token))
			g.requireHas(token)
		}
		require.Len(t, m.tickets, 1, "one asked the server")
		m.later()
		require.Len(t, m.tickets, 1, "no goroutine waits")
		m.HoldEnded(like)
	})
}

// T1: while a goroutine asks for what is scarce, another one waits for what it gets.
func TestScarceAskerIsWaitedFor(t *testing.T) {
	t.Parallel()
	inRig(t, func(m *rig) {
		m.scarce()
		g := []*caller{m.takes(), m.takes()}
		m.HoldEnded(like)
		synctest.Wait()
		require.Len(t, m.tickets, 2, "one asks when the last hold is over")
		m.enterReturns(errWaits)
		late := m.takes()
		require.Len(t, m.tickets, 2)
		m.HoldBegan(like)
		m.tickets[1].grant(2)
		g[0].requireHas(2)
		require.Equal(t, HandedOver, m.passes(3))
		g[1].requireHas(3)
		require.Equal(t, HandedOver, m.passes(4))
		late.requireHas(4)
		m.HoldEnded(like)
	})
}

// P6: a hold that is used for long keeps a waiter from the server for a while only, and a ticket stays with the waiters.
func TestScarceHoldThatIsKeptForLongSendsAWaiter(t *testing.T) {
	t.Parallel()
	inRig(t, func(m *rig) {
		m.scarce()
		first, second := m.takes(), m.takes()
		m.sleeps(sendsAfter - time.Millisecond)
		require.Len(t, m.tickets, 1)
		m.later()
		require.Len(t, m.tickets, 2)
		m.enterReturns(errWaits)
		require.Equal(t, HandedOver, m.passes(2))
		first.requireHas(2)
		m.tickets[1].requireKept(t)
		require.Equal(t, HandedOver, m.passes(3))
		second.requireHas(3)
		m.tickets[1].requireLeft(t, errServed)
		third := m.takes()
		require.Len(t, m.tickets, 2)
		m.later()
		require.Len(t, m.tickets, 3, "each time")
		m.enterReturns(errWaits)
		require.Equal(t, HandedOver, m.passes(4))
		third.requireHas(4)
		m.HoldEnded(like)
	})
}

// What the server grants at once is not scarce: those that come then ask side by side.
func TestGrantAtOnceEndsScarcity(t *testing.T) {
	t.Parallel()
	inRig(t, func(m *rig) {
		m.scarce()
		g := m.takes()
		m.later()
		m.HoldBegan(like)
		m.tickets[1].token = 2
		m.enterReturns(nil)
		g.requireHas(2)
		both := []*caller{m.takes(), m.takes()}
		require.Len(t, m.tickets, 4)
		for i, g := range both {
			m.tickets[2+i].token = uint64(3 + i)
			m.tickets[2+i].entered <- nil
			synctest.Wait()
			g.requireHas(uint64(3 + i))
		}
		m.HoldEnded(like)
		m.HoldEnded(like)
	})
}

// A try asks the server, also if permits are scarce.
func TestScarceHoldKeepsNoTryBack(t *testing.T) {
	t.Parallel()
	inRig(t, func(m *rig) {
		m.scarce()
		require.True(t, m.BeginTry(like))
		m.EndTry(like)
		m.HoldEnded(like)
	})
}

// P6: what a waiter waits for in the process does not come: the hold is lost, the one that asks fails, or gives up. Another
// one asks at once.
func TestScarceHoldThatIsLostSendsAWaiterAtOnce(t *testing.T) {
	t.Parallel()
	inRig(t, func(m *rig) {
		m.scarce()
		g := []*caller{m.takes(), m.takes(), m.takes()}
		require.Len(t, m.tickets, 1)
		m.HoldEnded(like)
		synctest.Wait()
		require.Len(t, m.tickets, 2)
		m.enterReturns(errFalls)
		g[2].requireFailed(errFalls)
		require.Len(t, m.tickets, 3)
		g[1].cancel() // on its way to the server
		synctest.Wait()
		g[1].requireFailed(context.Canceled)
		m.HoldBegan(like)
		m.tickets[2].token = 2
		m.tickets[2].entered <- nil
		synctest.Wait()
		g[0].requireHas(2)
		m.HoldEnded(like)
	})
}

// P6: a goroutine that asks at the side of no waiter fails, or tries in vain, and the one that came meanwhile asks at once.
func TestScarceAskerThatFailsSendsAWaiterAtOnce(t *testing.T) {
	t.Parallel()
	inRig(t, func(m *rig) {
		m.scarce()
		require.True(t, m.BeginTry(like))
		m.HoldEnded(like)
		first := m.takes()
		require.Len(t, m.tickets, 1, "a try asks")
		m.EndTry(like)
		synctest.Wait()
		require.Len(t, m.tickets, 2)
		second := m.takes()
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
		g := []*caller{m.takes(), m.takes()}
		m.closed = errFalls
		m.table.Refuse(errFalls)
		synctest.Wait()
		for _, g := range append(g, m.takes()) {
			g.requireFailed(errFalls)
		}
		m.later()
		require.Len(t, m.tickets, 1)
		m.HoldEnded(like)
	})
}

// P6: a hold is waited for by those with the same request alone. Others ask the server, since it is not handed over to them.
func TestScarceHoldIsNotWaitedForByOtherRequests(t *testing.T) {
	t.Parallel()
	inRig(t, func(m *rig) {
		m.scarce()
		same, other := m.takes(), m.takesThe(ShareKey{Permits: 2})
		require.Len(t, m.tickets, 2)
		m.enterReturns(errWaits)
		m.tickets[1].grant(2)
		other.requireHas(2)
		m.HoldEnded(like)
		synctest.Wait()
		require.Len(t, m.tickets, 3)
		m.enterReturns(errWaits)
		m.tickets[2].grant(3)
		same.requireHas(3)
	})
}
