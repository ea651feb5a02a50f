// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/dispatch"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

// P7.
func TestFreeLockCostsOneScriptAndNoSubscription(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.proxy.SetMatch(redistest.Commands("EVALSHA", "EVAL", "SUBSCRIBE", "SSUBSCRIBE")) // and not what the client sends by itself after a while
	u := f.join(f.proxy, nil, steady)
	for name, take := range map[string]func() (*Attempt, error){
		"Take": func() (*Attempt, error) { return u.q.Take(t.Context(), lockRequest) },
		"Try":  func() (*Attempt, error) { return u.q.try(t.Context(), lockRequest) },
	} {
		f.proxy.ResetCount()
		a, err := take()
		require.NoError(t, err, name)
		require.Equal(t, a.ticket(), f.holder())
		require.Equal(t, lease, a.Grant().Life)
		require.Equal(t, 1, f.proxy.Requests(), name)
		u.release(a)
		require.Equal(t, 2, f.proxy.Requests(), name)
		f.awaitNothingLeft(u)
	}
	require.Zero(t, u.session.Dispatch.Channels())
	require.Equal(t, []string{u.q.keys.Holder}, f.server.Keys("*"))
}

// Order: a call that waits has its ticket from the first enter on, whatever becomes of the
// subscription.
func TestWaiterHasATicketBeforeItSubscribes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.proxy.SetMatch(redistest.Commands("SUBSCRIBE"))
	f.proxy.Arm(redistest.Fault{Kind: redistest.SwallowRequest})
	holder, first, second := f.direct(), f.proxied(), f.direct()
	held := holder.acquire()
	waiting := first.startWaiting(t.Context(), 1)
	later := second.startWaiting(t.Context(), 2)
	second.awaitSubscription()
	holder.release(held)
	a := within(t, "the lock, by polls alone", waiting).mustHave(t)
	first.release(a)
	second.release(within(t, "the lock", later).mustHave(t))
	f.proxy.CutAll()
	f.awaitNothingLeft(holder, first, second)
}

// P1, order: over sessions, and within one.
func TestLockIsGrantedInTicketOrder(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	users := []*user{f.direct(), f.direct(), f.direct()}
	held := users[0].acquire()
	var waiting []<-chan outcome
	for n := range 12 {
		waiting = append(waiting, users[n%3].startWaiting(t.Context(), n+1))
	}
	last := held
	users[0].release(held)
	for n, w := range waiting {
		a := within(t, "the lock", w).mustHave(t)
		require.Greater(t, a.Grant().Stamp, last.Grant().Stamp)
		for _, other := range waiting[n+1:] {
			require.Empty(t, other)
		}
		users[n%3].release(a)
		last = a
	}
	f.awaitNothingLeft(users...)
}

// States: entering, and a message is faster than the reply.
func TestGrantBeforeTheReplyIsUsed(t *testing.T) {
	redistest.Slow(t, "a request of unknown outcome stays open for three seconds")
	t.Parallel()
	f := newFixture(t)
	holder, u := f.direct(), f.proxied()
	// If a machine stalls for longer than the reply is delayed, another try may be needed.
	await(t, "a grant by the message", func() bool { return u.releaseOvertaken(holder) < delay })
	f.awaitNothingLeft(holder, u)
}

// releaseOvertaken waits for a lock that is granted while the reply to the enter is delayed, and returns how long
// the waiter needed to learn of it.
func (u *user) releaseOvertaken(holder *user) time.Duration {
	f := u.fixture
	f.Helper()
	held := holder.acquire()
	ctx, cancel := context.WithCancel(f.T.Context())
	waiting := u.startWaiting(ctx, 1)
	u.awaitSubscription() // and does so for a while after it left
	cancel()
	require.ErrorIs(f, within(f, "the end of the wait", waiting).err, context.Canceled)
	await(f, "the end of the ticket", func() bool { return len(f.tickets()) == 0 })

	f.match(scripts.LockEnter)
	late := f.proxy.Arm(redistest.Fault{Kind: redistest.DelayReply, Delay: delay})
	before := clock.Now()
	waiting = u.startWaiting(f.T.Context(), 1)
	holder.release(held)
	within(f, "the delay", late.Fired())
	a := within(f, "the lock", waiting).mustHave(f)
	require.Equal(f, pollsPerLife*dispatch.PollInterval, a.Grant().Life)
	u.release(a)
	return a.Grant().Read.Mono() - before.Mono()
}

// P5: the reply to an enter is lost. The ticket is kept, and there is one.
func TestEnter_NoReply_IsRepeated(t *testing.T) {
	redistest.Slow(t, "a request of unknown outcome stays open for three seconds")
	t.Parallel()
	for _, kind := range []redistest.FaultKind{redistest.CutBeforeRequest, redistest.CutAfterRequest} {
		f := newFixture(t)
		holder, u, third := f.direct(), f.proxied(), f.direct()
		held := holder.acquire()
		f.match(scripts.LockEnter)
		f.proxy.Arm(redistest.Fault{Kind: kind})
		waiting := u.startWaiting(t.Context(), 1)
		hold := f.tickets()[0]
		later := third.startWaiting(t.Context(), 2)
		holder.release(held)
		a := within(t, "the lock", waiting).mustHave(t)
		require.Equal(t, hold, a.ticket()[:41])
		u.release(a)
		third.release(within(t, "the lock", later).mustHave(t))
		f.awaitNothingLeft(holder, u, third)
	}
}

// P4: a copy of an enter is executed after the hold of the repeated enter was released. It is released too.
func TestEnter_CopyAfterRelease_IsReleased(t *testing.T) {
	redistest.Slow(t, "a request of unknown outcome stays open for three seconds")
	t.Parallel()
	f := newFixture(t)
	u := f.proxied()
	// A copy has three seconds to come in, which a machine that stalls can use up.
	await(t, "a copy that comes in time", func() bool { return f.copiesEnter(u) })
	f.awaitNothingLeft(u)
}

// copiesEnter lets a copy of an enter come in after the release, and reports whether it came in time.
func (f *fixture) copiesEnter(u *user) bool {
	f.Helper()
	await(f, "an end of the last try", func() bool { _, attempts, _ := u.Len(); return attempts == 0 })
	f.match(scripts.LockEnter)
	f.proxy.ResetCount()
	var copied []any
	f.proxy.OnRequest(func(k int, request []string) {
		for _, word := range request {
			if k == 1 {
				copied = append(copied, word)
			}
		}
	})
	lost := f.proxy.Arm(redistest.Fault{Kind: redistest.CutBeforeRequest})
	a := u.acquire()
	within(f, "the first enter", lost.Fired())
	u.release(a)
	require.Empty(f, f.holder())
	_, attempts, _ := u.Len()
	reply := f.server.MustDo(f, copied...)
	if late, is := reply.([]any); is {
		require.Equal(f, int64(-1), late[0])
		return false
	}
	require.IsType(f, int64(0), reply, "it has the lock")
	require.Equal(f, 1, attempts, "it is known that a copy may come")
	return true
}

// P4: a call that is given up leaves nothing, wherever that falls.
func TestCancelledCallLeavesNothing(t *testing.T) {
	redistest.Slow(t, "a request of unknown outcome stays open for three seconds")
	t.Parallel()
	for name, fault := range map[string]redistest.Fault{
		"BeforeItIsExecuted":   {Kind: redistest.DelayRequest, Delay: patience},
		"BeforeItsReply":       {Kind: redistest.DelayReply, Delay: patience},
		"WithoutAReplyEver":    {Kind: redistest.SwallowReply},
		"WithoutBeingExecuted": {Kind: redistest.SwallowRequest},
	} {
		for what, isHeld := range map[string]bool{"TakeOfAHeldLock": true, "TryOfAFreeLock": false} {
			t.Run(what+name, func(t *testing.T) {
				t.Parallel()
				f := newFixture(t)
				// However long the machine stalls before the call is given up: until then there is no reply,
				// and the connection does not end.
				holder, u := f.direct(), f.join(f.proxy, nil, func(o *rueidis.ClientOption) { o.ConnWriteTimeout = 2 * patience })
				var held *Attempt
				call := u.q.try
				if isHeld {
					held, call = holder.acquire(), u.q.Take
				}
				f.match(scripts.LockEnter)
				fault := f.proxy.Arm(fault)
				ctx, cancel := context.WithCancel(t.Context())
				given := make(chan error, 1)
				go func() {
					_, err := call(ctx, lockRequest)
					given <- err
				}()
				within(t, "the fault", fault.Fired())
				cancel()
				require.ErrorIs(t, within(t, "the end of the call", given), context.Canceled)
				if isHeld {
					require.Equal(t, held.ticket(), f.holder())
					holder.release(held)
				}
				f.proxy.CutAll()
				f.awaitNothingLeft(holder, u)
			})
		}
	}
}

// P4: nothing was sent, so there is nothing to leave.
func TestCallThatSentNothingSendsNoLeave(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u := f.proxied()
	f.proxy.ResetCount()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := u.q.Take(ended, lockRequest)
	require.ErrorIs(t, err, context.Canceled)
	_, attempts, _ := u.Len()
	require.Zero(t, attempts)
	require.Zero(t, u.session.Undoer.Pending())
	require.Zero(t, f.proxy.Requests())
}

// P4, states: granted and given up in the same instant: the caller has the lock, or it is handed over.
func TestGrantToALeavingWaiterIsUsedOrHandedOver(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "a request of unknown outcome stays open for three seconds")
	f := newFixture(t)
	holder, u := f.direct(), f.direct()
	var wasHeld, left atomic.Int64
	for n := range 150 {
		held := holder.acquire()
		ctx, cancel := context.WithCancel(t.Context())
		waiting := u.startWaiting(ctx, 1)
		released := make(chan bool, 1)
		go func() {
			ok, err := held.Release(t.Context(), 0, lease)
			released <- ok && err == nil
		}()
		for range n * 300 { // a little later each time, without waiting
			_ = ctx.Err()
		}
		cancel()
		got := within(t, "the end of the call", waiting)
		require.True(t, within(t, "the release", released))
		if got.err == nil {
			wasHeld.Add(1)
			u.release(got.Attempt)
		} else {
			require.ErrorIs(t, got.err, context.Canceled)
			left.Add(1)
		}
		// The key of a left attempt would say so for longer.
		redistest.AwaitFor(t, patience/2, "the hand-over", func() bool { return f.holder() == "" && len(f.tickets()) == 0 })
	}
	t.Logf("%d had it, %d left", wasHeld.Load(), left.Load())
	f.awaitNothingLeft(holder, u)
}

// Order: TryLock overtakes no waiter that is alive, and does not ask the server if the session knows of one.
func TestTryOvertakesNoWaiter(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	holder, u, third := f.proxied(), f.proxied(), f.proxied()
	held := holder.acquire()
	_, err := third.q.try(t.Context(), lockRequest)
	require.ErrorIs(t, err, errs.ErrHeld)
	waiting := u.startWaiting(t.Context(), 1)
	f.match(scripts.LockEnter) // a waiter polls now and then
	f.proxy.ResetCount()
	_, err = holder.q.try(t.Context(), lockRequest)
	require.ErrorIs(t, err, errs.ErrHeld)
	_, err = u.q.try(t.Context(), lockRequest)
	require.ErrorIs(t, err, errs.ErrHeld)
	require.Zero(t, f.proxy.Requests())

	// The holder dies, and a try is the first to see it.
	f.server.MustDo(t, "PEXPIRE", u.q.keys.Holder, 15_000) // a marked key outlives its hold by that
	_, err = third.q.try(t.Context(), lockRequest)
	require.ErrorIs(t, err, errs.ErrHeld)
	u.release(within(t, "the lock", waiting).mustHave(t))
	wasHeld, err := held.Release(t.Context(), 0, lease)
	require.NoError(t, err)
	require.False(t, wasHeld, "it had ended")
	a, err := third.q.try(t.Context(), lockRequest)
	require.NoError(t, err)
	third.release(a)
	f.awaitNothingLeft(holder, u, third)
}

// P6: a try gives no heartbeat, and so must not count as one: a waiter that follows it is alive.
func TestWaiterAfterATryIsAlive(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	holder, u := f.direct(), f.direct()
	held := holder.acquire()
	_, err := u.q.try(t.Context(), lockRequest)
	require.ErrorIs(t, err, errs.ErrHeld)
	waiting := u.startWaiting(t.Context(), 1)
	require.NotNil(t, f.server.MustDo(t, "HGET", u.q.keys.All[2], u.session.ID()))
	holder.release(held)
	u.release(within(t, "the lock", waiting).mustHave(t))
	f.awaitNothingLeft(holder, u)
}

// P9, states: waiting, and the server says that waiting cannot succeed.
func TestWaiterOfAnotherKindsNameIsRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	holder, u := f.direct(), f.direct()
	holder.acquire()
	waiting := []<-chan outcome{u.startWaiting(t.Context(), 1), u.startWaiting(t.Context(), 2)}
	f.server.MustDo(t, "SET", u.q.keys.Holder, "sb1q1780000000000000", "PX", 60_000)
	for _, w := range waiting {
		require.ErrorIs(t, within(t, "the end of the wait", w).err, errs.ErrWrongKind)
	}
	gone := func() bool { _, attempts, _ := u.Len(); return attempts == 0 && len(f.tickets()) == 0 }
	for range 2 {
		await(t, "the end of the ticket", gone)
		_, err := u.q.try(t.Context(), lockRequest)
		require.ErrorIs(t, err, errs.ErrWrongKind)
		_, err = u.q.Take(t.Context(), lockRequest)
		require.ErrorIs(t, err, errs.ErrWrongKind)
	}
	await(t, "the end of the ticket", gone)
}

// P9: nor can it if the keys of the queue belong to another program.
func TestWaiterOfAForeignQueueKeyIsRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	// Beside a hold that has not changed, a session that gets messages polls only every 16 s.
	holder, u := f.direct(), f.join(f.server, func(s *session.Settings) { s.Polling = true })
	held := holder.acquire()
	waiting := u.startWaiting(t.Context(), 1)
	f.server.MustDo(t, "SET", u.q.keys.All[1], "mine")
	require.ErrorIs(t, within(t, "the end of the wait", waiting).err, errs.ErrWrongKind)
	require.Equal(t, "mine", f.server.MustDo(t, "GET", u.q.keys.All[1]))
	f.server.MustDo(t, "DEL", u.q.keys.All[1])
	holder.release(held)
	f.awaitNothingLeft(holder, u)
}

// P6: a session that polls waits with polls.
func TestPollingSessionIsGrantedTheLock(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	holder, u := f.direct(), f.join(f.server, func(s *session.Settings) { s.Polling = true })
	held := holder.acquire()
	waiting := u.startWaiting(t.Context(), 1)
	holder.release(held)
	u.release(within(t, "the lock", waiting).mustHave(t))
	require.Zero(t, f.server.CommandStats()["subscribe"].Calls)
	f.awaitNothingLeft(holder, u)
}
