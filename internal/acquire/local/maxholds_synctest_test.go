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

func TestMaxHoldsOne_OneAsks_OthersWait(t *testing.T) {
	t.Parallel()
	inRig(t, func(r *rig) {
		callers := []*caller{r.acquiresWith(exclusiveKey), r.acquiresWith(exclusiveKey), r.acquiresWith(exclusiveKey)}
		require.Len(t, r.tickets, 1, "two ask the server")
		r.holds(1)
		callers[0].requireHas(1)
		requireAllWait(callers[1:])
		require.Len(t, r.tickets, 1, "a waiter asks while the session holds")
		require.Equal(t, HandedOver, r.HandOver(testTime, exclusiveKey, handOver(2)))
		synctest.Wait()
		callers[1].requireHas(2)
		r.ends()
		require.Len(t, r.tickets, 2)
		r.holds(3)
		callers[2].requireHas(3)
		r.ends()
	})
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

// T7: another waiter keeps the ticket if the one that has it gives up, even if the session still counts the
// old hold.
func TestMaxHoldsOne_SentWaiterGivesUp_TicketIsKept(t *testing.T) {
	t.Parallel()
	inRig(t, func(r *rig) {
		callers := r.behindAHold(3)
		ticket := r.assignsTicket()
		callers[2].cancel()
		synctest.Wait()
		callers[2].requireFailed(context.Canceled)
		ticket.requireKept(t)
		r.ends()
		callers[1].cancel()
		synctest.Wait()
		ticket.requireKept(t)
		callers[0].cancel()
		synctest.Wait()
		ticket.requireLeft(t, context.Canceled)
		require.Len(t, r.tickets, 1)
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

// P6: waiters behind a hold are refused at once, and a late one is not queued.
func TestMaxHoldsOne_Refuse_EndsAllWaits(t *testing.T) {
	t.Parallel()
	inRig(t, func(r *rig) {
		callers := r.behindAHold(3)
		r.closed = errFalls
		r.table.Refuse(errFalls)
		synctest.Wait()
		for _, c := range append(callers, r.acquiresWith(exclusiveKey)) {
			c.requireFailed(errFalls)
		}
		r.ends()
		require.Len(t, r.tickets, 1)
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
