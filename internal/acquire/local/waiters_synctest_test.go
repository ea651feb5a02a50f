// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/hold"
)

// another is the request for an exclusive lock on other terms than those of one.
var another = ShareKey{MaxHolds: 1, Permits: 2}

// takesAlone begins a call of TakeAlone.
func (m *rig) takesAlone(several bool) *caller {
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

// A goroutine that asks the server counts, also for those with another request, or with a ticket of their own.
func TestMost_ExclusiveLock_AskersCount(t *testing.T) {
	t.Parallel()
	inRig(t, func(m *rig) {
		m.most = 2
		requireMany := func() {
			m.takesThe(one).requireFailed(errMany)
			m.takesThe(another).requireFailed(errMany)
			m.takesAlone(false).requireFailed(errMany)
		}
		asks, waits := m.takesThe(one), m.takesThe(one)
		requireMany()
		m.enterReturns(errWaits)
		requireMany()
		require.Len(t, m.tickets, 1, "others asked the server")
		require.Equal(t, 2, m.Waiters(one))
		require.Zero(t, m.Waiters(another))
		waits.leaves()
		alone := m.takesAlone(false)
		requireMany()
		alone.leaves()
		asks.leaves()
	})
}

// Goroutines that can all have what they ask for count when they have to wait.
func TestMost_SeveralHolds_OnlyWaitersCount(t *testing.T) {
	t.Parallel()
	inRig(t, func(m *rig) {
		m.most = 1
		callers := []*caller{m.takesAlone(true), m.takesAlone(true), m.takesThe(like)}
		requireAllWait(callers)
		for _, p := range m.tickets {
			p.entered <- errWaits
		}
		synctest.Wait()
		m.takesAlone(true).requireFailed(errMany)
		m.takesThe(like).requireFailed(errMany)
		for _, g := range callers {
			g.leaves()
		}
		m.takesAlone(true).leaves()
	})
}

// A goroutine that gets no ticket has the reason, and counts no more.
func TestTakeAlone_NoTicket_IsTheError(t *testing.T) {
	t.Parallel()
	inRig(t, func(m *rig) {
		m.errs = []error{errFalls}
		m.takesAlone(false).requireFailed(errFalls)
		require.Zero(t, m.Waiters(one))
	})
}
