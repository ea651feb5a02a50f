// SPDX-License-Identifier: Apache-2.0

package handoff

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
)

// shared is the request of these tests: goroutines enter a hold that one of them got.
var shared = Request{Way: Shared, Beside: true}

// inSharedRoom is inRoom for holds that are shared.
func inSharedRoom(t *testing.T, test func(m *room)) {
	t.Helper()
	inRoom(t, func(m *room) {
		m.shares, m.may = true, make(chan bool, 1)
		test(m)
	})
}

// Share implements Sharer.
func (m *room) Share(ctx context.Context, lease hold.Lease) bool {
	m.asks.Lock()
	m.asked++
	m.beside = lease
	m.asks.Unlock()
	select {
	case may := <-m.may:
		return may
	case <-ctx.Done():
		return false
	}
}

// reads begins a call that shares.
func (m *room) reads() *guest {
	m.Helper()
	return m.takesThe(shared)
}

// opened begins n calls, which share the hold with that token.
func (m *room) opened(n int, token uint64) (guests []*guest) {
	m.Helper()
	places := len(m.places)
	for range n {
		guests = append(guests, m.reads())
	}
	require.Len(m, m.places, places+1, "one asks for all")
	m.places[places].token = token
	m.answers(nil)
	for _, g := range guests {
		g.requireHas(token)
	}
	return guests
}

// aged lets so much time pass that the server is asked before a goroutine enters.
func (m *room) aged() {
	m.Helper()
	m.sleeps(sharesFor)
}

// replies is the server's reply to the question whether the hold may be shared further.
func (m *room) replies(may bool) {
	m.Helper()
	m.may <- may
	synctest.Wait()
}

// idle -> served: one asks for all, and those that come in the next 20 ms enter without the server.
func TestShared_OneAsks_AllEnter(t *testing.T) {
	t.Parallel()
	inSharedRoom(t, func(m *room) {
		m.opened(5, 1)
		m.sleeps(sharesFor - time.Millisecond)
		m.reads().requireHas(1)
		require.Zero(t, m.asked)
		require.Equal(t, Unwanted, m.Pass(now, shared, gives(7)))
		m.finishes(shared)
	})
}

// After a while one asks whether the hold may be shared further, the others wait for the reply, and all enter.
func TestShared_MayBeSharedFurther_AllEnterTheSameHold(t *testing.T) {
	t.Parallel()
	inSharedRoom(t, func(m *room) {
		m.opened(1, 1)
		m.aged()
		guests := []*guest{m.reads(), m.reads(), m.reads()}
		gone := m.reads()
		gone.cancel()
		synctest.Wait()
		gone.requireFailed(context.Canceled)
		require.NotErrorIs(t, gone.err, errs.ErrHeld, "the server has not said so")
		requireAllWait(guests)
		m.sleeps(5 * time.Millisecond)
		m.replies(true)
		for _, g := range guests {
			g.requireHas(1)
		}
		require.Equal(t, 1, m.asked)
		m.places[1].requireLeft(t, errServed)
		m.sleeps(sharesFor - 6*time.Millisecond)
		m.reads().requireHas(1)
		m.sleeps(time.Millisecond) // counted from the question, not from the reply
		late := m.reads()
		require.Equal(t, 2, m.asked)
		m.replies(true)
		late.requireHas(1)
		m.finishes(shared)
	})
}

// The hold may not be shared further: it lasts for the goroutines in it, and those that come share another one.
func TestShared_MayNotBeSharedFurther_OneQueuesForAll(t *testing.T) {
	t.Parallel()
	inSharedRoom(t, func(m *room) {
		old := m.opened(1, 1)[0]
		m.aged()
		guests := []*guest{m.reads(), m.reads()}
		m.replies(false)
		m.answers(errWaits)
		guests = append(guests, m.reads())
		require.Equal(t, 1, m.asked)
		require.Len(t, m.places, 2)
		require.NoError(t, old.lease.Err())
		require.Error(t, m.beside.Err(), "the one that asked has left the hold")
		m.finishes(shared) // the old one
		m.places[1].grant(2)
		for _, g := range guests {
			g.requireHas(2)
		}
		m.reads().requireHas(2)
		m.finishes(shared)
	})
}

// standing -> gone: a ticket goes to another waiter, and is left with the last one. What fails for one is said of it alone.
func TestShared_TheOneThatAsksGivesUp_AnotherKeepsTheTicket(t *testing.T) {
	t.Parallel()
	inSharedRoom(t, func(m *room) {
		guests := []*guest{m.reads(), m.reads(), m.reads()}
		m.answers(errWaits)
		for _, n := range []int{0, 2} {
			guests[n].cancel()
			synctest.Wait()
			guests[n].requireFailed(context.Canceled)
			m.places[0].requireKept(t)
		}
		m.places[0].granted <- errFalls
		synctest.Wait()
		guests[1].requireFailed(errFalls)
		m.places[0].requireLeft(t, errFalls)
		guests = []*guest{m.reads(), m.reads()}
		m.answers(errFalls)
		guests[0].requireFailed(errFalls)
		m.places[2].token = 3
		m.answers(nil)
		guests[1].requireHas(3)
		m.finishes(shared)
	})
}

// The one that asks gives up on its way: another one asks, and the hold is closed, since the question had no reply.
func TestShared_TheQuestionHasNoReply_AnotherOneQueues(t *testing.T) {
	t.Parallel()
	inSharedRoom(t, func(m *room) {
		m.opened(1, 1)
		m.aged()
		guests := []*guest{m.reads(), m.reads()}
		guests[0].cancel()
		synctest.Wait()
		guests[0].requireFailed(context.Canceled)
		m.places[1].requireLeft(t, context.Canceled)
		m.answers(errWaits)
		m.places[2].grant(2)
		guests[1].requireHas(2)
		require.Equal(t, 1, m.asked)
		m.finishes(shared)
		m.finishes(shared)
	})
}

// standing -> served: a goroutine that does not wait gets a hold, and all waiters enter it. The ticket is left.
func TestShared_TryGetsAHold_WaitersEnter(t *testing.T) {
	t.Parallel()
	inSharedRoom(t, func(m *room) {
		guests := []*guest{m.reads(), m.reads()}
		m.answers(errWaits)
		require.True(t, m.Try(shared), "waiters keep no reader out")
		m.Began(shared)
		m.Open(shared, leased(9))
		m.Tried(shared)
		synctest.Wait()
		for _, g := range guests {
			g.requireHas(9)
		}
		m.places[0].requireLeft(t, errServed)
		lease, ok := m.Queue.Share(t.Context(), shared, m)
		require.True(t, ok)
		require.Equal(t, uint64(9), lease.Token())
		m.finishes(shared)
		_, ok = m.Queue.Share(t.Context(), shared, m)
		require.False(t, ok)
		require.Zero(t, m.asked)
	})
}

// A hold that is over is entered by no goroutine: one of them asks for another one.
func TestShared_HoldIsOver_AnotherOneIsAskedFor(t *testing.T) {
	t.Parallel()
	inSharedRoom(t, func(m *room) {
		for _, g := range m.opened(2, 1) {
			require.NoError(t, g.lease.Unlock())
		}
		// Its release is under way: it is counted still.
		m.opened(2, 2)
		m.finishes(shared)
		m.finishes(shared)
		require.Zero(t, m.asked)
	})
}

// P6: waiters that only wait are refused, the one that asks is not, and a goroutine that comes may enter what is open.
func TestShared_WaitersAreRefused(t *testing.T) {
	t.Parallel()
	inSharedRoom(t, func(m *room) {
		asks, waits := m.reads(), m.reads()
		m.closed = errFalls
		m.table.Refuse(errFalls)
		synctest.Wait()
		waits.requireFailed(errFalls)
		asks.requireWaits()
		m.reads().requireFailed(errFalls)
		m.places[0].token = 1
		m.answers(nil)
		asks.requireHas(1)
		m.finishes(shared)
	})
}

// slow is a hold whose release has no reply before the test says so.
type slow struct {
	fake

	replied chan struct{}
}

func (s *slow) Vacated(clock.Instant) error {
	<-s.replied
	return nil
}

// A caller whose context ends while it asks is the last one in the hold: it does not wait for the release.
func TestShared_CancelledAsker_DoesNotWaitForTheRelease(t *testing.T) {
	t.Parallel()
	inSharedRoom(t, func(m *room) {
		held := &slow{replied: make(chan struct{})}
		lease := held.BeginOf(held, nil, nil, 1)
		m.Began(shared)
		m.Open(shared, lease)
		m.aged()
		asks := m.reads()
		require.NoError(t, lease.Unlock(), "the one that asks is in the hold")
		asks.cancel()
		synctest.Wait()
		asks.requireFailed(context.Canceled)
		close(held.replied)
		synctest.Wait()
		require.ErrorIs(t, m.beside.Err(), errs.ErrReleased)
		m.finishes(shared)
	})
}
