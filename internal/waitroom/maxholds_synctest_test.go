// SPDX-License-Identifier: Apache-2.0

package waitroom

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/hold"
)

// exclusiveKey is a key with which a session can have one hold.
var exclusiveKey = ShareKey{MaxHolds: 1}

// holds lets the newest Join be granted a hold with that token, which the session counts.
func (r *rig) holds(token uint64) {
	r.Helper()
	r.HoldBegan(exclusiveKey)
	r.tickets[len(r.tickets)-1].token = token
	r.joinReturns(nil)
}

// ends lets a hold end, which the session no longer counts.
func (r *rig) ends() {
	r.HoldEnded(exclusiveKey)
	synctest.Wait()
}

// behindAHold begins n calls that wait while the session holds.
func (r *rig) behindAHold(n int) []*caller {
	r.Helper()
	holder := r.acquiresWith(exclusiveKey)
	r.holds(1)
	holder.requireHas(1)
	var callers []*caller
	for range n {
		callers = append(callers, r.acquiresWith(exclusiveKey))
	}
	require.Len(r, r.tickets, 1, "a waiter asks the server while the session holds")
	return callers
}

// assignsTicket gives a waiter a ticket that is in the server's queue.
func (r *rig) assignsTicket() *fakeTicket {
	r.Helper()
	ticket := newTicket()
	ticket.queued.Store(true)
	require.True(r, r.AssignTicket(exclusiveKey, ticket))
	synctest.Wait()
	return ticket
}

// The end of a hold sends one waiter, and what that gets goes to the first one.
func TestMaxHoldsOne_HoldEnds_NextWaiterIsSent(t *testing.T) {
	t.Parallel()
	inRig(t, func(r *rig) {
		callers := r.behindAHold(3)
		for i, c := range callers {
			r.ends()
			require.Len(t, r.tickets, i+2, "one is sent")
			r.holds(uint64(i + 2))
			c.requireHas(uint64(i + 2))
			requireAllWait(callers[i+1:])
		}
		r.ends()
	})
}

// A goroutine that fails at the server sends the next one.
func TestMaxHoldsOne_AskFails_NextWaiterIsSent(t *testing.T) {
	t.Parallel()
	inRig(t, func(r *rig) {
		callers := []*caller{r.acquiresWith(exclusiveKey), r.acquiresWith(exclusiveKey), r.acquiresWith(exclusiveKey)}
		r.joinReturns(errFalls)
		callers[0].requireFailed(errFalls)
		require.Len(t, r.tickets, 2)
		r.errs = []error{errFalls}
		r.joinReturns(errFalls)
		callers[2].requireFailed(errFalls)
		callers[1].requireFailed(errFalls) // it could not make a ticket
	})
}

// T4: a requeued ticket goes to a waiter, and the end of the old hold sends no other one.
func TestMaxHoldsOne_AssignTicket_AWaiterHasIt(t *testing.T) {
	t.Parallel()
	inRig(t, func(r *rig) {
		require.False(t, r.AssignTicket(exclusiveKey, newTicket()), "no goroutine waits")
		callers := r.behindAHold(2)
		ticket := r.assignsTicket()
		ticket.requireKept(t)
		r.ends()
		require.Len(t, r.tickets, 1, "another one asks as well")
		r.HoldBegan(exclusiveKey)
		ticket.grant(7)
		callers[0].requireHas(7)
		callers[1].requireWaits()
		require.Len(t, r.tickets, 1)
		r.ends()
		r.holds(8)
		callers[1].requireHas(8)
		r.ends()
	})
}

func TestMaxHoldsOne_Try_KeepsOthersBack(t *testing.T) {
	t.Parallel()
	inRig(t, func(r *rig) {
		require.True(t, r.BeginTry(exclusiveKey))
		require.False(t, r.BeginTry(exclusiveKey), "another one tries")
		c := r.acquiresWith(exclusiveKey)
		require.Empty(t, r.tickets)
		require.False(t, r.BeginTry(exclusiveKey), "a goroutine waits")
		require.False(t, r.BeginTry(ShareKey{}), "it overtakes a waiter with another key")
		r.HoldBegan(exclusiveKey)
		r.EndTry(exclusiveKey)
		synctest.Wait()
		require.Empty(t, r.tickets, "the session holds")
		r.ends()
		r.holds(2)
		c.requireHas(2)
		require.False(t, r.BeginTry(exclusiveKey), "the session holds")
		r.ends()
		require.True(t, r.BeginTry(exclusiveKey))
		late := r.acquiresWith(exclusiveKey)
		r.EndTry(exclusiveKey)
		synctest.Wait()
		r.holds(3)
		late.requireHas(3)
		r.ends()
	})
}

// With two holds a third goroutine waits, and each hold that ends serves one.
func TestMaxHoldsTwo_TwoHold_ThirdWaits(t *testing.T) {
	t.Parallel()
	two := ShareKey{MaxHolds: 2}
	inRig(t, func(r *rig) {
		callers := []*caller{r.acquiresWith(two), r.acquiresWith(two), r.acquiresWith(two), r.acquiresWith(two)}
		require.Len(t, r.tickets, 2)
		for i, ticket := range r.tickets {
			r.HoldBegan(two)
			ticket.token = uint64(i + 1)
			ticket.joinResult <- nil
			synctest.Wait()
			callers[i].requireHas(uint64(i + 1))
		}
		require.Len(t, r.tickets, 2)
		r.HoldEnded(two)
		r.HoldEnded(two)
		synctest.Wait()
		require.Len(t, r.tickets, 3, "one asks after the other")
		for i := 2; i < 4; i++ {
			r.HoldBegan(two)
			r.tickets[i].token = uint64(i + 1)
			r.joinReturns(nil)
			callers[i].requireHas(uint64(i + 1))
		}
		r.HoldEnded(two)
		r.HoldEnded(two)
	})
}

// otherKey is the key of an exclusive lock on other terms than those of exclusiveKey.
var otherKey = ShareKey{MaxHolds: 1, Permits: 2}

// acquiresAlone begins an Acquisition with a ticket of its own.
func (r *rig) acquiresAlone(several bool) *caller {
	r.Helper()
	ctx, cancel := context.WithCancel(r.Context())
	c := &caller{T: r.T, cancel: cancel}
	go func() {
		c.lease, c.err = drive(ctx, &Acquisition{Queue: r.Room, Source: r, Concurrent: several})
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
