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
	inRig(t, func(m *rig) {
		one, two := m.acquires(), m.acquires()
		require.Len(t, m.tickets, 2)
		require.Equal(t, NoWaiter, m.handsOver(9), "they do not wait yet")
		for i, g := range []*caller{one, two} {
			g.requireWaits()
			m.tickets[i].token = uint64(i + 1)
			m.tickets[i].joinResult <- nil
			synctest.Wait()
			g.requireHas(uint64(i + 1))
		}
	})
}

func TestBehindAWaiterNewcomersHaveNoTicket(t *testing.T) {
	t.Parallel()
	inRig(t, func(m *rig) {
		callers := m.queued(3)
		requireAllWait(callers)
		for i, g := range callers {
			require.Equal(t, HandedOver, m.handsOver(uint64(i+1)))
			g.requireHas(uint64(i + 1))
			requireAllWait(callers[i+1:])
		}
		m.tickets[0].requireLeft(t, errServed)
		require.Equal(t, NoWaiter, m.handsOver(9))
	})
}

// joined -> served: the ticket goes to the last idle waiter.
func TestATicketGoesToTheLastIdleWaiter(t *testing.T) {
	t.Parallel()
	inRig(t, func(m *rig) {
		callers := m.queued(4)
		require.Equal(t, HandedOver, m.handsOver(1))
		callers[0].requireHas(1)
		m.tickets[0].requireKept(t)
		callers[3].cancel() // the ticket is its own: an idle waiter keeps no ticket
		synctest.Wait()
		callers[3].requireFailed(context.Canceled)
		m.tickets[0].requireKept(t)
		callers[1].cancel()
		synctest.Wait()
		callers[1].requireFailed(errEnded)
		m.tickets[0].requireKept(t)
		require.Equal(t, HandedOver, m.handsOver(2))
		callers[2].requireHas(2)
		m.tickets[0].requireLeft(t, errServed)
	})
}

// joined -> served, if the next waiter that asks finds that the ticket was granted something.
func TestAGrantedTicketServesTheNextWaiter(t *testing.T) {
	t.Parallel()
	inRig(t, func(m *rig) {
		callers := m.queued(2)
		m.tickets[0].token = 7
		m.tickets[0].joinResult <- nil // the reply to its next Join
		require.Equal(t, HandedOver, m.handsOver(1))
		callers[0].requireHas(1)
		callers[1].requireHas(7)
	})
}

// What the server grants goes to the first waiter. If another one asked for it, that one asks again, with a
// ticket of its own.
func TestAGrantGoesToTheFirstWaiter(t *testing.T) {
	t.Parallel()
	inRig(t, func(m *rig) {
		callers := m.queued(3)
		require.Equal(t, HandedOver, m.handsOver(1))
		m.tickets[0].requireKept(t) // by the last
		m.tickets[0].grant(2)
		callers[1].requireHas(2)
		callers[2].requireWaits()
		require.Len(t, m.tickets, 2)
		require.Equal(t, NoWaiter, m.handsOver(9), "a goroutine on its way to the server is passed over")
		m.joinReturns(errWaits)
		m.tickets[1].requireKept(t)
		m.tickets[1].grant(3)
		callers[2].requireHas(3)
	})
}

// fetching -> served: one ticket after the other, and all that is free is acquired.
func TestOneAfterTheOtherAcquiresAllThatIsFree(t *testing.T) {
	t.Parallel()
	inRig(t, func(m *rig) {
		callers := m.queued(4)
		m.tickets[0].grant(1)
		callers[0].requireHas(1)
		for n := 2; n <= 4; n++ {
			require.Len(t, m.tickets, n)
			m.tickets[n-1].token = uint64(n)
			m.joinReturns(nil)
		}
		for i, g := range callers {
			g.requireHas(uint64(i + 1))
		}
	})
}

// At first several waiters may have tickets; the surplus tickets are left as waiters are served.
func TestWaitersThatAskedTogetherHaveTicketsOfTheirOwn(t *testing.T) {
	t.Parallel()
	inRig(t, func(m *rig) {
		callers := []*caller{m.acquires(), m.acquires()}
		for _, p := range m.tickets {
			p.joinResult <- errWaits
			synctest.Wait()
		}
		callers = append(callers, m.acquires())
		require.Len(t, m.tickets, 2)
		require.Equal(t, HandedOver, m.handsOver(1))
		callers[0].requireHas(1)
		m.tickets[0].requireLeft(t, errServed)
		m.tickets[1].grant(2)
		callers[1].requireHas(2)
		require.Len(t, m.tickets, 3, "one asks at all times")
		m.joinReturns(errWaits)
		require.Equal(t, HandedOver, m.handsOver(3))
		callers[2].requireHas(3)
		m.tickets[2].requireLeft(t, errServed)
	})
}

// joined -> gone: without an idle waiter the ticket is left, and what was granted in that instant belongs
// to the caller.
func TestAWaiterThatGivesUpLeavesItsTicket(t *testing.T) {
	t.Parallel()
	inRig(t, func(m *rig) {
		callers := m.queued(1)
		callers[0].cancel()
		synctest.Wait()
		callers[0].requireFailed(context.Canceled)
		m.tickets[0].requireLeft(t, context.Canceled)
		callers = append(callers, m.acquires())
		m.joinReturns(errWaits)
		m.tickets[1].token = 5
		callers[1].cancel()
		synctest.Wait()
		callers[1].requireHas(5)
	})
}

// fetching -> gone: if a goroutine gives up on its way to the server, another one asks.
func TestAnotherAsksIfAWaiterGivesUpOnItsWay(t *testing.T) {
	t.Parallel()
	inRig(t, func(m *rig) {
		callers := m.queued(3)
		m.tickets[0].grant(1)
		callers[0].requireHas(1)
		callers[2].cancel() // it is on its way
		synctest.Wait()
		callers[2].requireFailed(context.Canceled)
		callers[1].requireWaits()
		require.Len(t, m.tickets, 2)
		m.joinReturns(errWaits) // to the other, with the same ticket
		require.Equal(t, HandedOver, m.handsOver(2))
		callers[1].requireHas(2)
	})
}

// joined -> gone, fetching -> gone: the error of one goroutine is not returned to the others.
func TestAnErrorIsReturnedToTheRequesterAlone(t *testing.T) {
	t.Parallel()
	inRig(t, func(m *rig) {
		callers := m.queued(4)
		m.tickets[0].granted <- errFalls
		synctest.Wait()
		callers[0].requireFailed(errFalls)
		m.tickets[0].requireLeft(t, errFalls)
		require.Len(t, m.tickets, 2)
		m.joinReturns(errFalls)
		callers[3].requireFailed(errFalls)
		m.joinReturns(errWaits)
		requireAllWait(callers[1:3])
		require.Equal(t, HandedOver, m.handsOver(1))
		require.Equal(t, HandedOver, m.handsOver(2))
		callers[1].requireHas(1)
		callers[2].requireHas(2)
	})
}

// P6: if the source refuses tickets, all waiters get the error, one after the other.
func TestAllWaitersGetTheErrorOfRefusedTickets(t *testing.T) {
	t.Parallel()
	inRig(t, func(m *rig) {
		callers := m.queued(5)
		m.errs = []error{errFalls, errFalls, errFalls, errFalls}
		m.tickets[0].granted <- errFalls
		synctest.Wait()
		for _, g := range callers {
			g.requireFailed(errFalls)
		}
	})
}

// P6: a goroutine that only waits for others is refused at once, however long the call of the goroutine
// that asks takes.
func TestWaitersForOthersAreRefusedAtOnce(t *testing.T) {
	t.Parallel()
	inRig(t, func(m *rig) {
		callers := m.queued(3)
		m.tickets[0].grant(1)
		callers[0].requireHas(1)
		require.Equal(t, int32(1), m.tickets[1].joining.Load(), "the last one asks")
		callers = append(callers, m.acquires())
		m.closed = errFalls
		m.table.Refuse(errFalls)
		synctest.Wait()
		callers[1].requireFailed(errFalls)
		callers[3].requireFailed(errFalls)
		callers[2].requireWaits()
		late := m.acquires()
		late.requireFailed(errFalls)
		require.Len(t, m.tickets, 2, "it does not ask")
		m.joinReturns(errWaits)
		m.table.Refuse(errFalls) // a queued waiter learns of it from the queue
		callers[2].requireWaits()
		m.tickets[1].granted <- errFalls
		synctest.Wait()
		callers[2].requireFailed(errFalls)
	})
}

// P7: keys without a waiter leave nothing behind, however many different ones there were.
func TestThereAreAsManyWaitlistsAsKeysInUse(t *testing.T) {
	t.Parallel()
	inRig(t, func(m *rig) {
		callers := m.queued(2)
		for n := range 100 {
			key := ShareKey{Permits: int32(n + 2)}
			other := m.acquiresWith(key)
			m.joinReturns(errWaits)
			also := m.acquiresWith(key)
			other.cancel()
			synctest.Wait()
			other.requireFailed(context.Canceled)
			require.Equal(t, HandedOver, m.HandOver(testTime, key, handOver(7)))
			synctest.Wait()
			also.requireHas(7)
			m.tickets[n+1].requireLeft(t, errServed)
		}
		waitlists := 0
		for list := &m.mu.first; list != nil; list = list.next {
			waitlists++
		}
		require.Equal(t, 2, waitlists)
		requireAllWait(callers)
		require.Equal(t, HandedOver, m.handsOver(1))
		require.Equal(t, HandedOver, m.handsOver(2))
	})
}

// P4: a goroutine that gives up in the instant in which it is handed something has it.
func TestAHandOverToAWaiterThatGivesUpIsKept(t *testing.T) {
	t.Parallel()
	for range 50 {
		inRig(t, func(m *rig) {
			callers, passed, had := m.queued(3), 0, 0
			for _, g := range callers {
				go g.cancel()
				if m.HandOver(testTime, permitKey, handOver(1)) == HandedOver {
					passed++
				}
				synctest.Wait()
			}
			for _, g := range callers {
				require.True(t, g.over.Load())
				if g.err == nil {
					had++
				}
			}
			require.Equal(t, passed, had)
		})
	}
}

// fetching: a waiter that is sent in the instant in which it gives up does not leave before it has read that.
func TestAWaiterThatWasSentDoesNotLeaveUnread(t *testing.T) {
	t.Parallel()
	table := newTable(t)
	q := table.Use("a")
	s := acquisition{queue: q, waitlist: q.findOrAddLocked(permitKey), waiter: table.getWaiter()}
	s.waitlist.append(s.waiter)
	s.waitlist.fetchIfNeeded()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, left := s.leave(ended)
	require.False(t, left)
	require.True(t, (<-s.waiter.events).fetch)
}

// A hold that refuses is not handed over, and no waiter loses its ticket for that.
func TestAHoldThatRefusesIsNotHandedOver(t *testing.T) {
	t.Parallel()
	inRig(t, func(m *rig) {
		callers := m.queued(2)
		require.Equal(t, Refused, m.handsOver(0))
		requireAllWait(callers)
		require.Equal(t, NoWaiter, m.HandOver(testTime, ShareKey{Permits: 2}, handOver(1)))
		require.Equal(t, HandedOver, m.handsOver(1))
		require.Equal(t, HandedOver, m.handsOver(2))
		callers[0].requireHas(1)
		callers[1].requireHas(2)
	})
}
