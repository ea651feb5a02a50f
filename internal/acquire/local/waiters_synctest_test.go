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

// acquiresAlone begins an Acquisition with a ticket of its own.
func (r *rig) acquiresAlone(several bool) *caller {
	r.Helper()
	ctx, cancel := context.WithCancel(r.Context())
	c := &caller{T: r.T, cancel: cancel}
	go func() {
		c.lease, c.err = drive(ctx, &Acquisition{Queue: r.Queue, Source: r, Concurrent: several})
		cancel()
		c.over.Store(true)
	}()
	synctest.Wait()
	return c
}

// leaves ends the wait of a caller with a ticket of its own, or of one that waits for other goroutines.
func (c *caller) leaves() {
	c.Helper()
	c.cancel()
	synctest.Wait()
	require.True(c, c.over.Load(), "it waits")
	require.Error(c, c.err)
	require.Equal(c, hold.Lease{}, c.lease)
}

// A goroutine that asks the server counts, also for those with another key, or with a ticket of their own.
func TestMaxHolds_ExclusiveLock_RequestersCount(t *testing.T) {
	t.Parallel()
	inRig(t, func(r *rig) {
		r.maxWaiters = 2
		requireMany := func() {
			r.acquiresWith(exclusiveKey).requireFailed(errMany)
			r.acquiresWith(otherKey).requireFailed(errMany)
			r.acquiresAlone(false).requireFailed(errMany)
		}
		first, waits := r.acquiresWith(exclusiveKey), r.acquiresWith(exclusiveKey)
		requireMany()
		r.joinReturns(errWaits)
		requireMany()
		require.Len(t, r.tickets, 1, "others asked the server")
		require.Equal(t, 2, r.Waiters(exclusiveKey))
		require.Zero(t, r.Waiters(otherKey))
		waits.leaves()
		alone := r.acquiresAlone(false)
		requireMany()
		alone.leaves()
		first.leaves()
	})
}

// Goroutines that can all have what they ask for count when they have to wait.
func TestMaxHolds_SeveralHolds_OnlyWaitersCount(t *testing.T) {
	t.Parallel()
	inRig(t, func(r *rig) {
		r.maxWaiters = 1
		callers := []*caller{r.acquiresAlone(true), r.acquiresAlone(true), r.acquiresWith(permitKey)}
		requireAllWait(callers)
		for _, ticket := range r.tickets {
			ticket.joinResult <- errWaits
		}
		synctest.Wait()
		r.acquiresAlone(true).requireFailed(errMany)
		r.acquiresWith(permitKey).requireFailed(errMany)
		for _, c := range callers {
			c.leaves()
		}
		r.acquiresAlone(true).leaves()
	})
}

// A goroutine that gets no ticket has the reason, and counts no more.
func TestOwnTicket_NoTicket_IsTheError(t *testing.T) {
	t.Parallel()
	inRig(t, func(r *rig) {
		r.errs = []error{errFalls}
		r.acquiresAlone(false).requireFailed(errFalls)
		require.Zero(t, r.Waiters(exclusiveKey))
	})
}
