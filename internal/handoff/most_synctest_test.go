// SPDX-License-Identifier: Apache-2.0

package handoff

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// one is a request of which a session can have one hold.
var one = Request{Most: 1}

// holds lets the newest Enter be granted a hold with that token, which the session counts.
func (m *room) holds(token uint64) {
	m.Helper()
	m.Began(one)
	m.places[len(m.places)-1].token = token
	m.answers(nil)
}

// ends counts a hold out.
func (m *room) ends() {
	m.Ended(one)
	synctest.Wait()
}

// behindAHold begins n calls that wait while the session holds.
func (m *room) behindAHold(n int) []*guest {
	m.Helper()
	holder := m.takesThe(one)
	m.holds(1)
	holder.requireHas(1)
	var guests []*guest
	for range n {
		guests = append(guests, m.takesThe(one))
	}
	require.Len(m, m.places, 1, "a waiter asks the server while the session holds")
	return guests
}

// sends gives a waiter a ticket that is in the server's queue.
func (m *room) sends() *place {
	m.Helper()
	p := newPlace()
	p.inLine.Store(true)
	require.True(m, m.Send(one, p))
	synctest.Wait()
	return p
}

func TestMostOne_OneAsks_OthersWait(t *testing.T) {
	t.Parallel()
	inRoom(t, func(m *room) {
		guests := []*guest{m.takesThe(one), m.takesThe(one), m.takesThe(one)}
		require.Len(t, m.places, 1, "two ask the server")
		m.holds(1)
		guests[0].requireHas(1)
		requireAllWait(guests[1:])
		require.Len(t, m.places, 1, "a waiter asks while the session holds")
		require.Equal(t, Passed, m.Pass(now, one, gives(2)))
		synctest.Wait()
		guests[1].requireHas(2)
		m.ends()
		require.Len(t, m.places, 2)
		m.holds(3)
		guests[2].requireHas(3)
		m.ends()
	})
}

// The end of a hold sends one waiter, and what that gets goes to the first one.
func TestMostOne_HoldEnds_NextWaiterIsSent(t *testing.T) {
	t.Parallel()
	inRoom(t, func(m *room) {
		guests := m.behindAHold(3)
		for i, g := range guests {
			m.ends()
			require.Len(t, m.places, i+2, "one is sent")
			m.holds(uint64(i + 2))
			g.requireHas(uint64(i + 2))
			requireAllWait(guests[i+1:])
		}
		m.ends()
	})
}

// A goroutine that fails at the server sends the next one.
func TestMostOne_AskFails_NextWaiterIsSent(t *testing.T) {
	t.Parallel()
	inRoom(t, func(m *room) {
		guests := []*guest{m.takesThe(one), m.takesThe(one), m.takesThe(one)}
		m.answers(errFalls)
		guests[0].requireFailed(errFalls)
		require.Len(t, m.places, 2)
		m.errs = []error{errFalls}
		m.answers(errFalls)
		guests[2].requireFailed(errFalls)
		guests[1].requireFailed(errFalls) // it could not make a ticket
	})
}

// T4: a requeued ticket goes to a waiter, and the end of the old hold sends no other one.
func TestMostOne_Send_TicketGoesToAWaiter(t *testing.T) {
	t.Parallel()
	inRoom(t, func(m *room) {
		require.False(t, m.Send(one, newPlace()), "no goroutine waits")
		guests := m.behindAHold(2)
		p := m.sends()
		p.requireKept(t)
		m.ends()
		require.Len(t, m.places, 1, "another one asks as well")
		m.Began(one)
		p.grant(7)
		guests[0].requireHas(7)
		guests[1].requireWaits()
		require.Len(t, m.places, 1)
		m.ends()
		m.holds(8)
		guests[1].requireHas(8)
		m.ends()
	})
}

// T7: the ticket is kept by another waiter if the one that has it gives up, also if the old hold is not counted out yet.
func TestMostOne_SentWaiterGivesUp_TicketIsKept(t *testing.T) {
	t.Parallel()
	inRoom(t, func(m *room) {
		guests := m.behindAHold(3)
		p := m.sends()
		guests[2].cancel()
		synctest.Wait()
		guests[2].requireFailed(context.Canceled)
		p.requireKept(t)
		m.ends()
		guests[1].cancel()
		synctest.Wait()
		p.requireKept(t)
		guests[0].cancel()
		synctest.Wait()
		p.requireLeft(t, context.Canceled)
		require.Len(t, m.places, 1)
	})
}

func TestMostOne_Try_KeepsOthersBack(t *testing.T) {
	t.Parallel()
	inRoom(t, func(m *room) {
		require.True(t, m.Try(one))
		require.False(t, m.Try(one), "another one tries")
		g := m.takesThe(one)
		require.Empty(t, m.places)
		require.False(t, m.Try(one), "a goroutine waits")
		require.False(t, m.Try(Request{}), "it overtakes a waiter with another request")
		m.Began(one)
		m.Tried(one)
		synctest.Wait()
		require.Empty(t, m.places, "the session holds")
		m.ends()
		m.holds(2)
		g.requireHas(2)
		require.False(t, m.Try(one), "the session holds")
		m.ends()
		require.True(t, m.Try(one))
		late := m.takesThe(one)
		m.Tried(one)
		synctest.Wait()
		m.holds(3)
		late.requireHas(3)
		m.ends()
	})
}

// P6: waiters behind a hold are refused at once, and a late one is not queued.
func TestMostOne_Refuse_EndsAllWaits(t *testing.T) {
	t.Parallel()
	inRoom(t, func(m *room) {
		guests := m.behindAHold(3)
		m.closed = errFalls
		m.table.Refuse(errFalls)
		synctest.Wait()
		for _, g := range append(guests, m.takesThe(one)) {
			g.requireFailed(errFalls)
		}
		m.ends()
		require.Len(t, m.places, 1)
	})
}

// With two holds a third goroutine waits, and each hold that ends lets one in.
func TestMostTwo_TwoHold_ThirdWaits(t *testing.T) {
	t.Parallel()
	two := Request{Most: 2}
	inRoom(t, func(m *room) {
		guests := []*guest{m.takesThe(two), m.takesThe(two), m.takesThe(two), m.takesThe(two)}
		require.Len(t, m.places, 2)
		for i, p := range m.places {
			m.Began(two)
			p.token = uint64(i + 1)
			p.entered <- nil
			synctest.Wait()
			guests[i].requireHas(uint64(i + 1))
		}
		require.Len(t, m.places, 2)
		m.Ended(two)
		m.Ended(two)
		synctest.Wait()
		require.Len(t, m.places, 3, "one asks after the other")
		for i := 2; i < 4; i++ {
			m.Began(two)
			m.places[i].token = uint64(i + 1)
			m.answers(nil)
			guests[i].requireHas(uint64(i + 1))
		}
		m.Ended(two)
		m.Ended(two)
	})
}
