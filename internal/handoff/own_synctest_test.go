// SPDX-License-Identifier: Apache-2.0

package handoff

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// own is a request for which each goroutine asks for itself, one after the other; side is one for which they ask side by side.
var (
	own  = Request{Most: 1, Own: true}
	side = Request{Own: true}
)

// grants lets the newest Enter be granted a hold of the request, which the session counts.
func (m *room) grants(r Request, token uint64) {
	m.Helper()
	m.Began(r)
	m.places[len(m.places)-1].token = token
	m.answers(nil)
}

// finishes counts a hold out.
func (m *room) finishes(r Request) {
	m.Helper()
	m.Ended(r)
	synctest.Wait()
}

// idle -> away -> served: the first waiter asks next, with a ticket of its own, and has what that is granted.
func TestOwn_HoldEnds_FirstWaiterAsksForItself(t *testing.T) {
	t.Parallel()
	inRoom(t, func(m *room) {
		guests := []*guest{m.takesThe(own), m.takesThe(own), m.takesThe(own)}
		for i, g := range guests {
			require.Len(t, m.places, i+1, "one asks at a time")
			m.grants(own, uint64(i+1))
			g.requireHas(uint64(i + 1))
			requireAllWait(guests[i+1:])
			m.finishes(own)
		}
	})
}

// standing -> served: what a ticket is granted goes to the goroutine that waits with it, also if another one came earlier.
func TestOwn_GrantGoesToTheTicketsWaiter(t *testing.T) {
	t.Parallel()
	inRoom(t, func(m *room) {
		guests := []*guest{m.takesThe(side), m.takesThe(side)}
		for _, p := range m.places {
			p.entered <- errWaits
			synctest.Wait()
		}
		m.Began(side)
		m.places[1].grant(2)
		guests[1].requireHas(2)
		guests[0].requireWaits()
		m.Began(side)
		m.places[0].grant(1)
		guests[0].requireHas(1)
		m.finishes(side)
		m.finishes(side)
	})
}

// away -> gone: the first waiter that fails sends the next one, which makes a ticket of its own.
func TestOwn_AskFails_NextWaiterAsks(t *testing.T) {
	t.Parallel()
	inRoom(t, func(m *room) {
		guests := []*guest{m.takesThe(own), m.takesThe(own), m.takesThe(own), m.takesThe(own)}
		m.answers(errFalls)
		guests[0].requireFailed(errFalls)
		m.places[0].requireLeft(t, errFalls)
		m.answers(errFalls)
		guests[1].requireFailed(errFalls)
		m.errs = []error{errFalls}
		m.answers(errFalls)
		guests[2].requireFailed(errFalls)
		guests[3].requireFailed(errFalls) // it could not make a ticket
		require.Len(t, m.places, 3)
	})
}

// standing -> gone, away -> gone: a ticket is left to no other goroutine.
func TestOwn_WaiterGivesUp_TicketIsLeft(t *testing.T) {
	t.Parallel()
	inRoom(t, func(m *room) {
		guests := []*guest{m.takesThe(own), m.takesThe(own), m.takesThe(own)}
		m.answers(errWaits)
		guests[0].cancel()
		synctest.Wait()
		guests[0].requireFailed(context.Canceled)
		m.places[0].requireLeft(t, context.Canceled)
		require.Len(t, m.places, 2, "the next one asks")
		guests[1].cancel() // on its way
		synctest.Wait()
		guests[1].requireFailed(context.Canceled)
		m.places[1].requireLeft(t, context.Canceled)
		require.Len(t, m.places, 3)
		m.grants(own, 3)
		guests[2].requireHas(3)
		m.finishes(own)
	})
}

// standing -> gone: what is granted in the instant in which the waiter gives up is its own.
func TestOwn_GivesUpWhenGranted_HasIt(t *testing.T) {
	t.Parallel()
	inRoom(t, func(m *room) {
		guests := []*guest{m.takesThe(own), m.takesThe(own)}
		m.answers(errWaits)
		m.Began(own)
		m.places[0].token = 7
		guests[0].cancel()
		synctest.Wait()
		guests[0].requireHas(7)
		guests[1].requireWaits()
		m.finishes(own)
		m.grants(own, 8)
		guests[1].requireHas(8)
		m.finishes(own)
	})
}

// idle -> gone: waiters that only wait are refused, or give up, and the goroutine that asks is not.
func TestOwn_IdleWaiters_AreRefusedOrGiveUp(t *testing.T) {
	t.Parallel()
	inRoom(t, func(m *room) {
		guests := []*guest{m.takesThe(own), m.takesThe(own), m.takesThe(own)}
		guests[1].cancel()
		synctest.Wait()
		guests[1].requireFailed(context.Canceled)
		m.table.Refuse(errFalls)
		synctest.Wait()
		guests[2].requireFailed(errFalls)
		guests[0].requireWaits()
		m.grants(own, 1)
		guests[0].requireHas(1)
		m.finishes(own)
		require.Len(t, m.places, 1)
	})
}
