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

// sharedKey is the key of these tests: goroutines join a hold that one of them got.
var sharedKey = ShareKey{Policy: Shared, Concurrent: true}

// inSharedRig is inRig for holds that are shared.
func inSharedRig(t *testing.T, test func(m *rig)) {
	t.Helper()
	inRig(t, func(m *rig) {
		m.sharing, m.mayShare = true, make(chan bool, 1)
		test(m)
	})
}

// MayShare implements SharedSource.
func (m *rig) MayShare(ctx context.Context, lease hold.Lease) bool {
	m.ticketsMu.Lock()
	m.questions++
	m.requestedLease = lease
	m.ticketsMu.Unlock()
	select {
	case may := <-m.mayShare:
		return may
	case <-ctx.Done():
		return false
	}
}

// acquiresShared begins a call that shares.
func (m *rig) acquiresShared() *caller {
	m.Helper()
	return m.acquiresWith(sharedKey)
}

// acquireTogether begins n calls, which share the hold with that token.
func (m *rig) acquireTogether(n int, token uint64) (callers []*caller) {
	m.Helper()
	tickets := len(m.tickets)
	for range n {
		callers = append(callers, m.acquiresShared())
	}
	require.Len(m, m.tickets, tickets+1, "one asks for all")
	m.tickets[tickets].token = token
	m.joinReturns(nil)
	for _, g := range callers {
		g.requireHas(token)
	}
	return callers
}

// aged waits until the next goroutine has to ask the server before it joins.
func (m *rig) aged() {
	m.Helper()
	m.sleeps(freshFor)
}

// replies is the server's reply to the question whether the hold may be shared further.
func (m *rig) replies(may bool) {
	m.Helper()
	m.mayShare <- may
	synctest.Wait()
}

// idle -> served: one asks for all, and those that come in the next 20 ms join without the server.
func TestShared_OneAsks_AllJoin(t *testing.T) {
	t.Parallel()
	inSharedRig(t, func(m *rig) {
		m.acquireTogether(5, 1)
		m.sleeps(freshFor - time.Millisecond)
		m.acquiresShared().requireHas(1)
		require.Zero(t, m.questions)
		require.Equal(t, NoWaiter, m.HandOver(testTime, sharedKey, handOver(7)))
		m.finishes(sharedKey)
	})
}

// After a while one asks whether the hold may be shared further, the others wait for the reply, and all join.
func TestShared_MayBeSharedFurther_AllJoinTheSameHold(t *testing.T) {
	t.Parallel()
	inSharedRig(t, func(m *rig) {
		m.acquireTogether(1, 1)
		m.aged()
		callers := []*caller{m.acquiresShared(), m.acquiresShared(), m.acquiresShared()}
		gone := m.acquiresShared()
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
		require.Equal(t, 1, m.questions)
		m.tickets[1].requireLeft(t, errServed)
		m.sleeps(freshFor - 6*time.Millisecond)
		m.acquiresShared().requireHas(1)
		m.sleeps(time.Millisecond) // counted from the question, not from the reply
		late := m.acquiresShared()
		require.Equal(t, 2, m.questions)
		m.replies(true)
		late.requireHas(1)
		m.finishes(sharedKey)
	})
}

// The hold may not be shared further: it lasts for the goroutines in it, and those that come share another one.
func TestShared_MayNotBeSharedFurther_OneQueuesForAll(t *testing.T) {
	t.Parallel()
	inSharedRig(t, func(m *rig) {
		old := m.acquireTogether(1, 1)[0]
		m.aged()
		callers := []*caller{m.acquiresShared(), m.acquiresShared()}
		m.replies(false)
		m.joinReturns(errWaits)
		callers = append(callers, m.acquiresShared())
		require.Equal(t, 1, m.questions)
		require.Len(t, m.tickets, 2)
		require.NoError(t, old.lease.Err())
		require.Error(t, m.requestedLease.Err(), "the one that asked has left the hold")
		m.finishes(sharedKey) // the old one
		m.tickets[1].grant(2)
		for _, g := range callers {
			g.requireHas(2)
		}
		m.acquiresShared().requireHas(2)
		m.finishes(sharedKey)
	})
}

// joined -> gone: a ticket goes to another waiter, and is left with the last one. What fails for one is said of it alone.
func TestShared_TheOneThatAsksGivesUp_AnotherKeepsTheTicket(t *testing.T) {
	t.Parallel()
	inSharedRig(t, func(m *rig) {
		callers := []*caller{m.acquiresShared(), m.acquiresShared(), m.acquiresShared()}
		m.joinReturns(errWaits)
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
		callers = []*caller{m.acquiresShared(), m.acquiresShared()}
		m.joinReturns(errFalls)
		callers[0].requireFailed(errFalls)
		m.tickets[2].token = 3
		m.joinReturns(nil)
		callers[1].requireHas(3)
		m.finishes(sharedKey)
	})
}

// The one that asks gives up on its way: another one asks. The hold is not shared further, since the
// question had no reply.
func TestShared_TheQuestionHasNoReply_AnotherOneQueues(t *testing.T) {
	t.Parallel()
	inSharedRig(t, func(m *rig) {
		m.acquireTogether(1, 1)
		m.aged()
		callers := []*caller{m.acquiresShared(), m.acquiresShared()}
		callers[0].cancel()
		synctest.Wait()
		callers[0].requireFailed(context.Canceled)
		m.tickets[1].requireLeft(t, context.Canceled)
		m.joinReturns(errWaits)
		m.tickets[2].grant(2)
		callers[1].requireHas(2)
		require.Equal(t, 1, m.questions)
		m.finishes(sharedKey)
		m.finishes(sharedKey)
	})
}

// joined -> served: a goroutine that does not wait gets a hold, and all waiters join it. The ticket is left.
func TestShared_TryGetsAHold_WaitersJoin(t *testing.T) {
	t.Parallel()
	inSharedRig(t, func(m *rig) {
		callers := []*caller{m.acquiresShared(), m.acquiresShared()}
		m.joinReturns(errWaits)
		require.True(t, m.BeginTry(sharedKey), "waiters keep no reader out")
		m.HoldBegan(sharedKey)
		m.ShareHold(sharedKey, leased(9))
		m.EndTry(sharedKey)
		synctest.Wait()
		for _, g := range callers {
			g.requireHas(9)
		}
		m.tickets[0].requireLeft(t, errServed)
		lease, ok := m.Queue.JoinShared(t.Context(), sharedKey, m)
		require.True(t, ok)
		require.Equal(t, uint64(9), lease.Token())
		m.finishes(sharedKey)
		_, ok = m.Queue.JoinShared(t.Context(), sharedKey, m)
		require.False(t, ok)
		require.Zero(t, m.questions)
	})
}

// A hold that is over is joined by no goroutine: one of them asks for another one.
func TestShared_HoldIsOver_AnotherOneIsAskedFor(t *testing.T) {
	t.Parallel()
	inSharedRig(t, func(m *rig) {
		for _, g := range m.acquireTogether(2, 1) {
			require.NoError(t, g.lease.Unlock())
		}
		// Its release is under way: it is counted still.
		m.acquireTogether(2, 2)
		m.finishes(sharedKey)
		m.finishes(sharedKey)
		require.Zero(t, m.questions)
	})
}

// A hold that ended before it was shared is joined by no waiter.
func TestShared_OpenedHoldIsOver_WaitersStay(t *testing.T) {
	t.Parallel()
	inSharedRig(t, func(m *rig) {
		asks, waits := m.acquiresShared(), m.acquiresShared()
		over := leased(1)
		require.NoError(t, over.Unlock())
		m.ShareHold(sharedKey, over)
		synctest.Wait()
		requireAllWait([]*caller{asks, waits})
		waits.leaves()
		asks.leaves()
	})
}

// P6: waiters that only wait are refused, the one that asks is not, and a goroutine that comes may join a shared hold.
func TestShared_WaitersAreRefused(t *testing.T) {
	t.Parallel()
	inSharedRig(t, func(m *rig) {
		asks, waits := m.acquiresShared(), m.acquiresShared()
		m.closed = errFalls
		m.table.Refuse(errFalls)
		synctest.Wait()
		waits.requireFailed(errFalls)
		asks.requireWaits()
		m.acquiresShared().requireFailed(errFalls)
		m.tickets[0].token = 1
		m.joinReturns(nil)
		asks.requireHas(1)
		m.finishes(sharedKey)
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
func TestShared_CancelledRequester_DoesNotWaitForTheRelease(t *testing.T) {
	t.Parallel()
	inSharedRig(t, func(m *rig) {
		held := &slow{replied: make(chan struct{})}
		lease := held.BeginComposite(held, nil, nil, 1)
		m.HoldBegan(sharedKey)
		m.ShareHold(sharedKey, lease)
		m.aged()
		asks := m.acquiresShared()
		require.NoError(t, lease.Unlock(), "the one that asks is in the hold")
		asks.cancel()
		synctest.Wait()
		asks.requireFailed(context.Canceled)
		close(held.replied)
		synctest.Wait()
		require.ErrorIs(t, m.requestedLease.Err(), errs.ErrReleased)
		m.finishes(sharedKey)
	})
}
