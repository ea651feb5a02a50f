// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// Goroutines do not wait for what is not scarce: without a waiter, newcomers ask the server side by side.
func TestWithoutAWaiterNewcomersAskTheServer(t *testing.T) {
	t.Parallel()
	inRig(t, func(r *rig) {
		one, two := r.acquires(), r.acquires()
		require.Len(t, r.tickets, 2)
		require.Equal(t, NoWaiter, r.handsOver(9), "they do not wait yet")
		for i, c := range []*caller{one, two} {
			c.requireWaits()
			r.tickets[i].token = uint64(i + 1)
			r.tickets[i].joinResult <- nil
			synctest.Wait()
			c.requireHas(uint64(i + 1))
		}
	})
}

func TestBehindAWaiterNewcomersHaveNoTicket(t *testing.T) {
	t.Parallel()
	inRig(t, func(r *rig) {
		callers := r.queued(3)
		requireAllWait(callers)
		for i, c := range callers {
			require.Equal(t, HandedOver, r.handsOver(uint64(i+1)))
			c.requireHas(uint64(i + 1))
			requireAllWait(callers[i+1:])
		}
		r.tickets[0].requireLeft(t, errServed)
		require.Equal(t, NoWaiter, r.handsOver(9))
	})
}

// joined -> served: the ticket goes to the last idle waiter.
func TestATicketGoesToTheLastIdleWaiter(t *testing.T) {
	t.Parallel()
	inRig(t, func(r *rig) {
		callers := r.queued(4)
		require.Equal(t, HandedOver, r.handsOver(1))
		callers[0].requireHas(1)
		r.tickets[0].requireKept(t)
		callers[3].cancel() // the ticket is its own: an idle waiter keeps no ticket
		synctest.Wait()
		callers[3].requireFailed(context.Canceled)
		r.tickets[0].requireKept(t)
		callers[1].cancel()
		synctest.Wait()
		callers[1].requireFailed(errEnded)
		r.tickets[0].requireKept(t)
		require.Equal(t, HandedOver, r.handsOver(2))
		callers[2].requireHas(2)
		r.tickets[0].requireLeft(t, errServed)
	})
}

// joined -> served, if the next waiter that asks finds that the ticket was granted something.
func TestAGrantedTicketServesTheNextWaiter(t *testing.T) {
	t.Parallel()
	inRig(t, func(r *rig) {
		callers := r.queued(2)
		r.tickets[0].token = 7
		r.tickets[0].joinResult <- nil // the reply to its next Join
		require.Equal(t, HandedOver, r.handsOver(1))
		callers[0].requireHas(1)
		callers[1].requireHas(7)
	})
}

// What the server grants goes to the first waiter. If another one asked for it, that one asks again, with a
// ticket of its own.
func TestAGrantGoesToTheFirstWaiter(t *testing.T) {
	t.Parallel()
	inRig(t, func(r *rig) {
		callers := r.queued(3)
		require.Equal(t, HandedOver, r.handsOver(1))
		r.tickets[0].requireKept(t) // by the last
		r.tickets[0].grant(2)
		callers[1].requireHas(2)
		callers[2].requireWaits()
		require.Len(t, r.tickets, 2)
		require.Equal(t, NoWaiter, r.handsOver(9), "a goroutine on its way to the server is passed over")
		r.joinReturns(errWaits)
		r.tickets[1].requireKept(t)
		r.tickets[1].grant(3)
		callers[2].requireHas(3)
	})
}

// requesting -> served: one ticket after the other, and all that is free is acquired.
func TestOneAfterTheOtherAcquiresAllThatIsFree(t *testing.T) {
	t.Parallel()
	inRig(t, func(r *rig) {
		callers := r.queued(4)
		r.tickets[0].grant(1)
		callers[0].requireHas(1)
		for n := 2; n <= 4; n++ {
			require.Len(t, r.tickets, n)
			r.tickets[n-1].token = uint64(n)
			r.joinReturns(nil)
		}
		for i, c := range callers {
			c.requireHas(uint64(i + 1))
		}
	})
}

// At first several waiters may have tickets; the surplus tickets are left as waiters are served.
func TestWaitersThatAskedTogetherHaveTicketsOfTheirOwn(t *testing.T) {
	t.Parallel()
	inRig(t, func(r *rig) {
		callers := []*caller{r.acquires(), r.acquires()}
		for _, ticket := range r.tickets {
			ticket.joinResult <- errWaits
			synctest.Wait()
		}
		callers = append(callers, r.acquires())
		require.Len(t, r.tickets, 2)
		require.Equal(t, HandedOver, r.handsOver(1))
		callers[0].requireHas(1)
		r.tickets[0].requireLeft(t, errServed)
		r.tickets[1].grant(2)
		callers[1].requireHas(2)
		require.Len(t, r.tickets, 3, "one asks at all times")
		r.joinReturns(errWaits)
		require.Equal(t, HandedOver, r.handsOver(3))
		callers[2].requireHas(3)
		r.tickets[2].requireLeft(t, errServed)
	})
}

// joined -> gone: without an idle waiter the ticket is left, and what was granted in that instant belongs
// to the caller.
func TestAWaiterThatGivesUpLeavesItsTicket(t *testing.T) {
	t.Parallel()
	inRig(t, func(r *rig) {
		callers := r.queued(1)
		callers[0].cancel()
		synctest.Wait()
		callers[0].requireFailed(context.Canceled)
		r.tickets[0].requireLeft(t, context.Canceled)
		callers = append(callers, r.acquires())
		r.joinReturns(errWaits)
		r.tickets[1].token = 5
		callers[1].cancel()
		synctest.Wait()
		callers[1].requireHas(5)
	})
}

// requesting -> gone: if a goroutine gives up on its way to the server, another one asks.
func TestAnotherAsksIfAWaiterGivesUpOnItsWay(t *testing.T) {
	t.Parallel()
	inRig(t, func(r *rig) {
		callers := r.queued(3)
		r.tickets[0].grant(1)
		callers[0].requireHas(1)
		callers[2].cancel() // it is on its way
		synctest.Wait()
		callers[2].requireFailed(context.Canceled)
		callers[1].requireWaits()
		require.Len(t, r.tickets, 2)
		r.joinReturns(errWaits) // to the other, with the same ticket
		require.Equal(t, HandedOver, r.handsOver(2))
		callers[1].requireHas(2)
	})
}

// joined -> gone, requesting -> gone: the error of one goroutine is not returned to the others.
func TestAnErrorIsReturnedToTheRequesterAlone(t *testing.T) {
	t.Parallel()
	inRig(t, func(r *rig) {
		callers := r.queued(4)
		r.tickets[0].granted <- errFalls
		synctest.Wait()
		callers[0].requireFailed(errFalls)
		r.tickets[0].requireLeft(t, errFalls)
		require.Len(t, r.tickets, 2)
		r.joinReturns(errFalls)
		callers[3].requireFailed(errFalls)
		r.joinReturns(errWaits)
		requireAllWait(callers[1:3])
		require.Equal(t, HandedOver, r.handsOver(1))
		require.Equal(t, HandedOver, r.handsOver(2))
		callers[1].requireHas(1)
		callers[2].requireHas(2)
	})
}

// P6: if the source refuses tickets, all waiters get the error, one after the other.
func TestAllWaitersGetTheErrorOfRefusedTickets(t *testing.T) {
	t.Parallel()
	inRig(t, func(r *rig) {
		callers := r.queued(5)
		r.errs = []error{errFalls, errFalls, errFalls, errFalls}
		r.tickets[0].granted <- errFalls
		synctest.Wait()
		for _, c := range callers {
			c.requireFailed(errFalls)
		}
	})
}

// P6: a goroutine that only waits for others is refused at once, however long the call of the goroutine
// that asks takes.
func TestWaitersForOthersAreRefusedAtOnce(t *testing.T) {
	t.Parallel()
	inRig(t, func(r *rig) {
		callers := r.queued(3)
		r.tickets[0].grant(1)
		callers[0].requireHas(1)
		require.Equal(t, int32(1), r.tickets[1].joining.Load(), "the last one asks")
		callers = append(callers, r.acquires())
		r.closed = errFalls
		r.table.Refuse(errFalls)
		synctest.Wait()
		callers[1].requireFailed(errFalls)
		callers[3].requireFailed(errFalls)
		callers[2].requireWaits()
		late := r.acquires()
		late.requireFailed(errFalls)
		require.Len(t, r.tickets, 2, "it does not ask")
		r.joinReturns(errWaits)
		r.table.Refuse(errFalls) // a queued waiter learns of it from the queue
		callers[2].requireWaits()
		r.tickets[1].granted <- errFalls
		synctest.Wait()
		callers[2].requireFailed(errFalls)
	})
}

// P7: keys without a waiter leave nothing behind, however many different ones there were.
func TestThereAreAsManyWaitlistsAsKeysInUse(t *testing.T) {
	t.Parallel()
	inRig(t, func(r *rig) {
		callers := r.queued(2)
		for n := range 100 {
			key := ShareKey{Permits: int32(n + 2)}
			other := r.acquiresWith(key)
			r.joinReturns(errWaits)
			also := r.acquiresWith(key)
			other.cancel()
			synctest.Wait()
			other.requireFailed(context.Canceled)
			require.Equal(t, HandedOver, r.HandOver(testTime, key, handOver(7)))
			synctest.Wait()
			also.requireHas(7)
			r.tickets[n+1].requireLeft(t, errServed)
		}
		waitlists := 0
		for range r.listsLocked() {
			waitlists++
		}
		require.Equal(t, 2, waitlists)
		requireAllWait(callers)
		require.Equal(t, HandedOver, r.handsOver(1))
		require.Equal(t, HandedOver, r.handsOver(2))
	})
}

// P4: a goroutine that gives up in the instant in which it is handed something has it.
func TestAHandOverToAWaiterThatGivesUpIsKept(t *testing.T) {
	t.Parallel()
	for range 50 {
		inRig(t, func(r *rig) {
			callers, passed, had := r.queued(3), 0, 0
			for _, c := range callers {
				go c.cancel()
				if r.HandOver(testTime, permitKey, handOver(1)) == HandedOver {
					passed++
				}
				synctest.Wait()
			}
			for _, c := range callers {
				require.True(t, c.over.Load())
				if c.err == nil {
					had++
				}
			}
			require.Equal(t, passed, had)
		})
	}
}

// requesting: a waiter that is sent in the instant in which it gives up does not leave before it has read that.
func TestAWaiterThatWasSentDoesNotLeaveUnread(t *testing.T) {
	t.Parallel()
	table := newTable(t)
	q := table.Use("a")
	s := Acquisition{Queue: q, waitlist: q.findOrAddLocked(permitKey), waiter: table.getWaiter()}
	s.waitlist.append(q, s.waiter)
	s.waitlist.sendIfNeeded()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, left := s.leave(ended)
	require.False(t, left)
	require.True(t, (<-s.waiter.events).request)
}

// A hold that refuses is not handed over, and no waiter loses its ticket for that.
func TestAHoldThatRefusesIsNotHandedOver(t *testing.T) {
	t.Parallel()
	inRig(t, func(r *rig) {
		callers := r.queued(2)
		require.Equal(t, Refused, r.handsOver(0))
		requireAllWait(callers)
		require.Equal(t, NoWaiter, r.HandOver(testTime, ShareKey{Permits: 2}, handOver(1)))
		require.Equal(t, HandedOver, r.handsOver(1))
		require.Equal(t, HandedOver, r.handsOver(2))
		callers[0].requireHas(1)
		callers[1].requireHas(2)
	})
}
