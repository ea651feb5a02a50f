// SPDX-License-Identifier: Apache-2.0

package local

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
var shared = ShareKey{Policy: Shared, Concurrent: true}

// inSharedRig is inRig for holds that are shared.
func inSharedRig(t *testing.T, test func(m *rig)) {
	t.Helper()
	inRig(t, func(m *rig) {
		m.shares, m.may = true, make(chan bool, 1)
		test(m)
	})
}

// Share implements Sharer.
func (m *rig) MayShare(ctx context.Context, lease hold.Lease) bool {
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
func (m *rig) reads() *caller {
	m.Helper()
	return m.takesThe(shared)
}

// opened begins n calls, which share the hold with that token.
func (m *rig) opened(n int, token uint64) (callers []*caller) {
	m.Helper()
	tickets := len(m.tickets)
	for range n {
		callers = append(callers, m.reads())
	}
	require.Len(m, m.tickets, tickets+1, "one asks for all")
	m.tickets[tickets].token = token
	m.enterReturns(nil)
	for _, g := range callers {
		g.requireHas(token)
	}
	return callers
}

// aged waits until the next goroutine has to ask the server before it enters.
func (m *rig) aged() {
	m.Helper()
	m.sleeps(sharesFor)
}

// replies is the server's reply to the question whether the hold may be shared further.
func (m *rig) replies(may bool) {
	m.Helper()
	m.may <- may
	synctest.Wait()
}

// idle -> served: one asks for all, and those that come in the next 20 ms enter without the server.
func TestShared_OneAsks_AllEnter(t *testing.T) {
	t.Parallel()
	inSharedRig(t, func(m *rig) {
		m.opened(5, 1)
		m.sleeps(sharesFor - time.Millisecond)
		m.reads().requireHas(1)
		require.Zero(t, m.asked)
		require.Equal(t, NoWaiter, m.HandOver(now, shared, handOver(7)))
		m.finishes(shared)
	})
}

// After a while one asks whether the hold may be shared further, the others wait for the reply, and all enter.
func TestShared_MayBeSharedFurther_AllEnterTheSameHold(t *testing.T) {
	t.Parallel()
	inSharedRig(t, func(m *rig) {
		m.opened(1, 1)
		m.aged()
		callers := []*caller{m.reads(), m.reads(), m.reads()}
		gone := m.reads()
		gone.cancel()
		synctest.Wait()
		gone.requireFailed(context.Canceled)
		require.NotErrorIs(t, gone.err, errs.ErrHeld, "the server has not said so")
		requireAllWait(callers)
		m.sleeps(5 * time.Millisecond)
		m.replies(true)
		for _, g := range callers {
			g.requireHas(1)
		}
		require.Equal(t, 1, m.asked)
		m.tickets[1].requireLeft(t, errServed)
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
	inSharedRig(t, func(m *rig) {
		old := m.opened(1, 1)[0]
		m.aged()
		callers := []*caller{m.reads(), m.reads()}
		m.replies(false)
		m.enterReturns(errWaits)
		callers = append(callers, m.reads())
		require.Equal(t, 1, m.asked)
		require.Len(t, m.tickets, 2)
		require.NoError(t, old.lease.Err())
		require.Error(t, m.beside.Err(), "the one that asked has left the hold")
		m.finishes(shared) // the old one
		m.tickets[1].grant(2)
		for _, g := range callers {
			g.requireHas(2)
		}
		m.reads().requireHas(2)
		m.finishes(shared)
	})
}

// standing -> gone: a ticket goes to another waiter, and is left with the last one. What fails for one is said of it alone.
func TestShared_TheOneThatAsksGivesUp_AnotherKeepsTheTicket(t *testing.T) {
	t.Parallel()
	inSharedRig(t, func(m *rig) {
		callers := []*caller{m.reads(), m.reads(), m.reads()}
		m.enterReturns(errWaits)
		for _, n := range []int{0, 2} {
			callers[n].cancel()
			synctest.Wait()
			callers[n].requireFailed(context.Canceled)
			m.tickets[0].requireKept(t)
		}
		m.tickets[0].granted <- errFalls
		synctest.Wait()
		callers[1].requireFailed(errFalls)
		m.tickets[0].requireLeft(t, errFalls)
		callers = []*caller{m.reads(), m.reads()}
		m.enterReturns(errFalls)
		callers[0].requireFailed(errFalls)
		m.tickets[2].token = 3
		m.enterReturns(nil)
		callers[1].requireHas(3)
		m.finishes(shared)
	})
}

// The one that asks gives up on its way: another one asks. The hold is not shared further, since the
// question had no reply.
func TestShared_TheQuestionHasNoReply_AnotherOneQueues(t *testing.T) {
	t.Parallel()
	inSharedRig(t, func(m *rig) {
		m.opened(1, 1)
		m.aged()
		callers := []*caller{m.reads(), m.reads()}
		callers[0].cancel()
		synctest.Wait()
		callers[0].requireFailed(context.Canceled)
		m.tickets[1].requireLeft(t, context.Canceled)
		m.enterReturns(errWaits)
		m.tickets[2].grant(2)
		callers[1].requireHas(2)
		require.Equal(t, 1, m.asked)
		m.finishes(shared)
		m.finishes(shared)
	})
}

// standing -> served: a goroutine that does not wait gets a hold, and all waiters enter it. The ticket is left.
func TestShared_TryGetsAHold_WaitersEnter(t *testing.T) {
	t.Parallel()
	inSharedRig(t, func(m *rig) {
		callers := []*caller{m.reads(), m.reads()}
		m.enterReturns(errWaits)
		require.True(t, m.BeginTry(shared), "waiters keep no reader out")
		m.HoldBegan(shared)
		m.ShareHold(shared, leased(9))
		m.EndTry(shared)
		synctest.Wait()
		for _, g := range callers {
			g.requireHas(9)
		}
		m.tickets[0].requireLeft(t, errServed)
		lease, ok := m.Queue.JoinShared(t.Context(), shared, m)
		require.True(t, ok)
		require.Equal(t, uint64(9), lease.Token())
		m.finishes(shared)
		_, ok = m.Queue.JoinShared(t.Context(), shared, m)
		require.False(t, ok)
		require.Zero(t, m.asked)
	})
}

// A hold that is over is entered by no goroutine: one of them asks for another one.
func TestShared_HoldIsOver_AnotherOneIsAskedFor(t *testing.T) {
	t.Parallel()
	inSharedRig(t, func(m *rig) {
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

// A hold that ended before it was opened is entered by no waiter.
func TestShared_OpenedHoldIsOver_WaitersStay(t *testing.T) {
	t.Parallel()
	inSharedRig(t, func(m *rig) {
		asks, waits := m.reads(), m.reads()
		over := leased(1)
		require.NoError(t, over.Unlock())
		m.ShareHold(shared, over)
		synctest.Wait()
		requireAllWait([]*caller{asks, waits})
		waits.leaves()
		asks.leaves()
	})
}

// P6: waiters that only wait are refused, the one that asks is not, and a goroutine that comes may enter what is open.
func TestShared_WaitersAreRefused(t *testing.T) {
	t.Parallel()
	inSharedRig(t, func(m *rig) {
		asks, waits := m.reads(), m.reads()
		m.closed = errFalls
		m.table.Refuse(errFalls)
		synctest.Wait()
		waits.requireFailed(errFalls)
		asks.requireWaits()
		m.reads().requireFailed(errFalls)
		m.tickets[0].token = 1
		m.enterReturns(nil)
		asks.requireHas(1)
		m.finishes(shared)
	})
}

// slow is a hold whose release has no reply before the test says so.
type slow struct {
	fake

	replied chan struct{}
}

func (s *slow) OnRelease(clock.Instant) error {
	<-s.replied
	return nil
}

// A caller whose context ends while it asks is the last one in the hold: it does not wait for the release.
func TestShared_CancelledAsker_DoesNotWaitForTheRelease(t *testing.T) {
	t.Parallel()
	inSharedRig(t, func(m *rig) {
		held := &slow{replied: make(chan struct{})}
		lease := held.BeginComposite(held, nil, nil, 1)
		m.HoldBegan(shared)
		m.ShareHold(shared, lease)
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
