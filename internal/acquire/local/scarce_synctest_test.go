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
func (r *rig) scarce() {
	r.Helper()
	c := r.acquires()
	r.joinReturns(errWaits)
	r.HoldBegan(permitKey)
	r.tickets[0].grant(1)
	c.requireHas(1)
	require.Len(r, r.tickets, 1)
}

// sleeps lets time pass.
func (r *rig) sleeps(d time.Duration) {
	r.Helper()
	r.ticketsMu.Lock()
	r.ticketsMu.Unlock() //nolint:staticcheck // what the test read is read
	time.Sleep(d)
	synctest.Wait()
}

// later lets a while pass, after which a waiter asks the server.
func (r *rig) later() {
	r.Helper()
	r.sleeps(sendDelay)
}

// T1: two goroutines hand a hold of what is scarce back and forth, and send nothing.
func TestScarceHoldIsWaitedForInTheProcess(t *testing.T) {
	t.Parallel()
	inRig(t, func(r *rig) {
		r.scarce()
		for token := uint64(2); token < 9; token++ {
			c := r.acquires()
			require.Equal(t, HandedOver, r.handsOver(token))
			c.requireHas(token)
		}
		require.Len(t, r.tickets, 1, "one asked the server")
		r.later()
		require.Len(t, r.tickets, 1, "no goroutine waits")
		r.HoldEnded(permitKey)
	})
}

// T1: while a goroutine asks for what is scarce, another one waits for what it gets.
func TestScarceRequesterIsWaitedFor(t *testing.T) {
	t.Parallel()
	inRig(t, func(r *rig) {
		r.scarce()
		g := []*caller{r.acquires(), r.acquires()}
		r.HoldEnded(permitKey)
		synctest.Wait()
		require.Len(t, r.tickets, 2, "one asks when the last hold is over")
		r.joinReturns(errWaits)
		late := r.acquires()
		require.Len(t, r.tickets, 2)
		r.HoldBegan(permitKey)
		r.tickets[1].grant(2)
		g[0].requireHas(2)
		require.Equal(t, HandedOver, r.handsOver(3))
		g[1].requireHas(3)
		require.Equal(t, HandedOver, r.handsOver(4))
		late.requireHas(4)
		r.HoldEnded(permitKey)
	})
}

// P6: a hold that is used for long keeps a waiter from the server for a while only, and a ticket stays with the waiters.
func TestScarceHoldThatIsKeptForLongSendsAWaiter(t *testing.T) {
	t.Parallel()
	inRig(t, func(r *rig) {
		r.scarce()
		first, second := r.acquires(), r.acquires()
		r.sleeps(sendDelay - time.Millisecond)
		require.Len(t, r.tickets, 1)
		r.later()
		require.Len(t, r.tickets, 2)
		r.joinReturns(errWaits)
		require.Equal(t, HandedOver, r.handsOver(2))
		first.requireHas(2)
		r.tickets[1].requireKept(t)
		require.Equal(t, HandedOver, r.handsOver(3))
		second.requireHas(3)
		r.tickets[1].requireLeft(t, errServed)
		third := r.acquires()
		require.Len(t, r.tickets, 2)
		r.later()
		require.Len(t, r.tickets, 3, "each time")
		r.joinReturns(errWaits)
		require.Equal(t, HandedOver, r.handsOver(4))
		third.requireHas(4)
		r.HoldEnded(permitKey)
	})
}

// What the server grants at once is not scarce: those that come then ask side by side.
func TestGrantAtOnceEndsScarcity(t *testing.T) {
	t.Parallel()
	inRig(t, func(r *rig) {
		r.scarce()
		c := r.acquires()
		r.later()
		r.HoldBegan(permitKey)
		r.tickets[1].token = 2
		r.joinReturns(nil)
		c.requireHas(2)
		both := []*caller{r.acquires(), r.acquires()}
		require.Len(t, r.tickets, 4)
		for i, c := range both {
			r.tickets[2+i].token = uint64(3 + i)
			r.tickets[2+i].joinResult <- nil
			synctest.Wait()
			c.requireHas(uint64(3 + i))
		}
		r.HoldEnded(permitKey)
		r.HoldEnded(permitKey)
	})
}

// A try asks the server, also if permits are scarce.
func TestScarceHoldKeepsNoTryBack(t *testing.T) {
	t.Parallel()
	inRig(t, func(r *rig) {
		r.scarce()
		require.True(t, r.BeginTry(permitKey))
		r.EndTry(permitKey)
		r.HoldEnded(permitKey)
	})
}

// P6: what a waiter waits for in the process does not come: the hold is lost, the one that asks fails, or gives up. Another
// one asks at once.
func TestScarceHoldThatIsLostSendsAWaiterAtOnce(t *testing.T) {
	t.Parallel()
	inRig(t, func(r *rig) {
		r.scarce()
		g := []*caller{r.acquires(), r.acquires(), r.acquires()}
		require.Len(t, r.tickets, 1)
		r.HoldEnded(permitKey)
		synctest.Wait()
		require.Len(t, r.tickets, 2)
		r.joinReturns(errFalls)
		g[2].requireFailed(errFalls)
		require.Len(t, r.tickets, 3)
		g[1].cancel() // on its way to the server
		synctest.Wait()
		g[1].requireFailed(context.Canceled)
		r.HoldBegan(permitKey)
		r.tickets[2].token = 2
		r.tickets[2].joinResult <- nil
		synctest.Wait()
		g[0].requireHas(2)
		r.HoldEnded(permitKey)
	})
}

// P6: a goroutine that asks at the side of no waiter fails, or tries in vain, and the one that came meanwhile asks at once.
func TestScarceRequesterThatFailsSendsAWaiterAtOnce(t *testing.T) {
	t.Parallel()
	inRig(t, func(r *rig) {
		r.scarce()
		require.True(t, r.BeginTry(permitKey))
		r.HoldEnded(permitKey)
		first := r.acquires()
		require.Len(t, r.tickets, 1, "a try asks")
		r.EndTry(permitKey)
		synctest.Wait()
		require.Len(t, r.tickets, 2)
		second := r.acquires()
		first.cancel()
		synctest.Wait()
		first.requireFailed(context.Canceled)
		require.Len(t, r.tickets, 2, "the second has the ticket of the first")
		second.cancel()
		synctest.Wait()
		second.requireFailed(context.Canceled)
	})
}

// P6: waiters for what is scarce are refused like others, and nothing asks the server afterwards.
func TestScarceHoldKeepsNoWaiterThatIsRefused(t *testing.T) {
	t.Parallel()
	inRig(t, func(r *rig) {
		r.scarce()
		g := []*caller{r.acquires(), r.acquires()}
		r.closed = errFalls
		r.table.Refuse(errFalls)
		synctest.Wait()
		for _, c := range append(g, r.acquires()) {
			c.requireFailed(errFalls)
		}
		r.later()
		require.Len(t, r.tickets, 1)
		r.HoldEnded(permitKey)
	})
}

// P6: a hold is waited for by those with the same key alone. Others ask the server, since it is not handed over to them.
func TestScarceHoldIsNotWaitedForWithOtherKeys(t *testing.T) {
	t.Parallel()
	inRig(t, func(r *rig) {
		r.scarce()
		same, other := r.acquires(), r.acquiresWith(ShareKey{Permits: 2})
		require.Len(t, r.tickets, 2)
		r.joinReturns(errWaits)
		r.tickets[1].grant(2)
		other.requireHas(2)
		r.HoldEnded(permitKey)
		synctest.Wait()
		require.Len(t, r.tickets, 3)
		r.joinReturns(errWaits)
		r.tickets[2].grant(3)
		same.requireHas(3)
	})
}
