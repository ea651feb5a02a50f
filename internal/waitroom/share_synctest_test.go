// SPDX-License-Identifier: Apache-2.0

package waitroom

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/timers"
)

// sharedKey is the key of these tests: goroutines join a hold that one of them got.
var sharedKey = ShareKey{Policy: Shared, Concurrent: true}

// inSharedRig is inRig for holds that are shared.
func inSharedRig(t *testing.T, test func(r *rig)) {
	t.Helper()
	inRig(t, func(r *rig) {
		r.sharing, r.mayShare = true, make(chan bool, 1)
		test(r)
	})
}

// MayShare implements TicketSource.
func (r *rig) MayShare(ctx context.Context, lease hold.Lease) bool {
	r.ticketsMu.Lock()
	r.questions++
	r.requestedLease = lease
	r.ticketsMu.Unlock()
	select {
	case may := <-r.mayShare:
		return may
	case <-ctx.Done():
		return false
	}
}

// acquiresShared begins a call that shares.
func (r *rig) acquiresShared() *caller {
	r.Helper()
	return r.acquiresWith(sharedKey)
}

// acquireTogether begins n calls, which share the hold with that token.
func (r *rig) acquireTogether(n int, token uint64) (callers []*caller) {
	r.Helper()
	tickets := len(r.tickets)
	for range n {
		callers = append(callers, r.acquiresShared())
	}
	require.Len(r, r.tickets, tickets+1, "one asks for all")
	r.tickets[tickets].token = token
	r.joinReturns(nil)
	for _, c := range callers {
		c.requireHas(token)
	}
	return callers
}

// aged waits until the next goroutine has to ask the server before it joins.
func (r *rig) aged() {
	r.Helper()
	r.sleeps(freshFor)
}

// replies is the server's reply to the question whether the hold may be shared further.
func (r *rig) replies(may bool) {
	r.Helper()
	r.mayShare <- may
	synctest.Wait()
}

// After a while one asks whether the hold may be shared further, the others wait for the reply, and all join.
func TestShared_MayBeSharedFurther_AllJoinTheSameHold(t *testing.T) {
	t.Parallel()
	inSharedRig(t, func(r *rig) {
		r.acquireTogether(1, 1)
		r.aged()
		callers := []*caller{r.acquiresShared(), r.acquiresShared(), r.acquiresShared()}
		gone := r.acquiresShared()
		gone.cancel()
		synctest.Wait()
		gone.requireFailed(context.Canceled)
		require.NotErrorIs(t, gone.err, errs.ErrHeld, "the server has not said so")
		requireAllWait(callers)
		r.sleeps(5 * time.Millisecond)
		r.replies(true)
		for _, c := range callers {
			c.requireHas(1)
		}
		require.Equal(t, 1, r.questions)
		r.tickets[1].requireLeft(t, errServed)
		r.sleeps(freshFor - 6*time.Millisecond)
		r.acquiresShared().requireHas(1)
		r.sleeps(time.Millisecond) // counted from the question, not from the reply
		late := r.acquiresShared()
		require.Equal(t, 2, r.questions)
		r.replies(true)
		late.requireHas(1)
		r.finishes(sharedKey)
	})
}

// joined -> gone: a ticket goes to another waiter, and is left with the last one. What fails for one is said of it alone.
func TestShared_TheOneThatAsksGivesUp_AnotherKeepsTheTicket(t *testing.T) {
	t.Parallel()
	inSharedRig(t, func(r *rig) {
		callers := []*caller{r.acquiresShared(), r.acquiresShared(), r.acquiresShared()}
		r.joinReturns(errWaits)
		for _, n := range []int{0, 2} {
			callers[n].cancel()
			synctest.Wait()
			callers[n].requireFailed(context.Canceled)
			r.tickets[0].requireKept(t)
		}
		r.tickets[0].granted <- errFalls
		synctest.Wait()
		callers[1].requireFailed(errFalls)
		r.tickets[0].requireLeft(t, errFalls)
		callers = []*caller{r.acquiresShared(), r.acquiresShared()}
		r.joinReturns(errFalls)
		callers[0].requireFailed(errFalls)
		r.tickets[2].token = 3
		r.joinReturns(nil)
		callers[1].requireHas(3)
		r.finishes(sharedKey)
	})
}

// The one that asks gives up on its way: another one asks. The hold is not shared further, since the
// question had no reply.
func TestShared_TheQuestionHasNoReply_AnotherOneQueues(t *testing.T) {
	t.Parallel()
	inSharedRig(t, func(r *rig) {
		r.acquireTogether(1, 1)
		r.aged()
		callers := []*caller{r.acquiresShared(), r.acquiresShared()}
		callers[0].cancel()
		synctest.Wait()
		callers[0].requireFailed(context.Canceled)
		r.tickets[1].requireLeft(t, context.Canceled)
		r.joinReturns(errWaits)
		r.tickets[2].grant(2)
		callers[1].requireHas(2)
		require.Equal(t, 1, r.questions)
		r.finishes(sharedKey)
		r.finishes(sharedKey)
	})
}

// joined -> served: a goroutine that does not wait gets a hold, and all waiters join it. The ticket is left.
func TestShared_TryGetsAHold_WaitersJoin(t *testing.T) {
	t.Parallel()
	inSharedRig(t, func(r *rig) {
		callers := []*caller{r.acquiresShared(), r.acquiresShared()}
		r.joinReturns(errWaits)
		require.True(t, r.BeginTry(sharedKey), "waiters keep no reader out")
		r.HoldBegan(sharedKey)
		r.ShareHold(sharedKey, leased(9))
		r.EndTry(sharedKey)
		synctest.Wait()
		for _, c := range callers {
			c.requireHas(9)
		}
		r.tickets[0].requireLeft(t, errServed)
		lease, ok := r.Room.JoinShared(t.Context(), sharedKey, r)
		require.True(t, ok)
		require.Equal(t, uint64(9), lease.Token())
		r.finishes(sharedKey)
		_, ok = r.Room.JoinShared(t.Context(), sharedKey, r)
		require.False(t, ok)
		require.Zero(t, r.questions)
	})
}

// slow is a hold whose release has no reply before the test says so.
type slow struct {
	fake

	replied chan struct{}
}

func (s *slow) OnRelease(timers.Instant) error {
	<-s.replied
	return nil
}

// A caller whose context ends while it asks is the last one in the hold: it does not wait for the release.
func TestShared_CancelledRequester_DoesNotWaitForTheRelease(t *testing.T) {
	t.Parallel()
	inSharedRig(t, func(r *rig) {
		held := &slow{replied: make(chan struct{})}
		lease := held.BeginComposite(held, nil, nil, 1)
		r.HoldBegan(sharedKey)
		r.ShareHold(sharedKey, lease)
		r.aged()
		first := r.acquiresShared()
		require.NoError(t, lease.Unlock(), "the one that asks is in the hold")
		first.cancel()
		synctest.Wait()
		first.requireFailed(context.Canceled)
		close(held.replied)
		synctest.Wait()
		require.ErrorIs(t, r.requestedLease.Err(), errs.ErrReleased)
		r.finishes(sharedKey)
	})
}

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
		c.lease, c.err = drive(ctx, &Acquisition{Room: r.Room, Source: r, Concurrent: several})
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
