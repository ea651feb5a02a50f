// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/hold"
)

// otherKey is the key of an exclusive lock on other terms than those of exclusiveKey.
var otherKey = ShareKey{MaxHolds: 1, Permits: 2}

// acquiresAlone begins a call of AcquireAlone.
func (m *rig) acquiresAlone(several bool) *caller {
	m.Helper()
	ctx, cancel := context.WithCancel(m.Context())
	g := &caller{T: m.T, cancel: cancel}
	go func() {
		g.lease, g.err = m.AcquireAlone(ctx, several, m)
		cancel()
		g.over.Store(true)
	}()
	synctest.Wait()
	return g
}

// leaves ends the wait of a caller with a ticket of its own, or of one that waits for other goroutines.
func (g *caller) leaves() {
	g.Helper()
	g.cancel()
	synctest.Wait()
	require.True(g, g.over.Load(), "it waits")
	require.Error(g, g.err)
	require.Equal(g, hold.Lease{}, g.lease)
}

// A goroutine that asks the server counts, also for those with another key, or with a ticket of their own.
func TestMaxHolds_ExclusiveLock_RequestersCount(t *testing.T) {
	t.Parallel()
	inRig(t, func(m *rig) {
		m.maxWaiters = 2
		requireMany := func() {
			m.acquiresWith(exclusiveKey).requireFailed(errMany)
			m.acquiresWith(otherKey).requireFailed(errMany)
			m.acquiresAlone(false).requireFailed(errMany)
		}
		asks, waits := m.acquiresWith(exclusiveKey), m.acquiresWith(exclusiveKey)
		requireMany()
		m.joinReturns(errWaits)
		requireMany()
		require.Len(t, m.tickets, 1, "others asked the server")
		require.Equal(t, 2, m.Waiters(exclusiveKey))
		require.Zero(t, m.Waiters(otherKey))
		waits.leaves()
		alone := m.acquiresAlone(false)
		requireMany()
		alone.leaves()
		asks.leaves()
	})
}

// Goroutines that can all have what they ask for count when they have to wait.
func TestMaxHolds_SeveralHolds_OnlyWaitersCount(t *testing.T) {
	t.Parallel()
	inRig(t, func(m *rig) {
		m.maxWaiters = 1
		callers := []*caller{m.acquiresAlone(true), m.acquiresAlone(true), m.acquiresWith(permitKey)}
		requireAllWait(callers)
		for _, p := range m.tickets {
			p.joinResult <- errWaits
		}
		synctest.Wait()
		m.acquiresAlone(true).requireFailed(errMany)
		m.acquiresWith(permitKey).requireFailed(errMany)
		for _, g := range callers {
			g.leaves()
		}
		m.acquiresAlone(true).leaves()
	})
}

// A goroutine that gets no ticket has the reason, and counts no more.
func TestAcquireAlone_NoTicket_IsTheError(t *testing.T) {
	t.Parallel()
	inRig(t, func(m *rig) {
		m.errs = []error{errFalls}
		m.acquiresAlone(false).requireFailed(errFalls)
		require.Zero(t, m.Waiters(exclusiveKey))
	})
}
