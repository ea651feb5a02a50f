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
	p := newPlace(t)
	u := p.behind()
	for name, take := range map[string]func() (*Attempt, error){
		"Take": func() (*Attempt, error) { return u.q.Take(t.Context(), wish) },
		"Try":  func() (*Attempt, error) { return u.q.Try(t.Context(), wish) },
	} {
		p.proxy.ResetCount()
		a, err := take()
		require.NoError(t, err, name)
		require.Equal(t, a.ticket(), p.holder())
		require.Equal(t, lease, a.Grant().Life)
		require.Equal(t, 1, p.proxy.Requests(), name)
		u.gives(a)
		require.Equal(t, 2, p.proxy.Requests(), name)
		p.nothingLeft(u)
	}
	require.Zero(t, u.session.Dispatch.Channels())
	require.Equal(t, []string{u.q.keys.Holder}, p.server.Keys("*"))
}

// Order: a call that waits has its place from its first contact on, whatever becomes of the
// subscription.
func TestWaiterHasATicketBeforeItSubscribes(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.proxy.SetMatch(redistest.Commands("SUBSCRIBE"))
	p.proxy.Arm(redistest.Fault{Kind: redistest.SwallowRequest})
	holder, first, second := p.plain(), p.behind(), p.plain()
	held := holder.takes()
	waiting := first.waiting(t.Context(), 1)
	later := second.waiting(t.Context(), 2)
	second.hears()
	holder.gives(held)
	a := within(t, "the lock, by looks alone", waiting).mustHave(t)
	first.gives(a)
	second.gives(within(t, "the lock", later).mustHave(t))
	p.proxy.CutAll()
	p.nothingLeft(holder, first, second)
}

// P1, order: over sessions, and within one.
func TestLockIsGrantedInTicketOrder(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	users := []*user{p.plain(), p.plain(), p.plain()}
	held := users[0].takes()
	var waiting []<-chan outcome
	for n := range 12 {
		waiting = append(waiting, users[n%3].waiting(t.Context(), n+1))
	}
	last := held
	users[0].gives(held)
	for n, w := range waiting {
		a := within(t, "the lock", w).mustHave(t)
		require.Greater(t, a.Grant().Stamp, last.Grant().Stamp)
		for _, other := range waiting[n+1:] {
			require.Empty(t, other)
		}
		users[n%3].gives(a)
		last = a
	}
	p.nothingLeft(users...)
}

// States: entering, and a message is faster than the reply.
func TestGrantBeforeTheReplyIsUsed(t *testing.T) {
	redistest.Slow(t, "a request of unknown outcome stays open for three seconds")
	t.Parallel()
	p := newPlace(t)
	holder, u := p.plain(), p.behind()
	// If a machine stalls for longer than the reply is delayed, another try may be needed.
	await(t, "a grant that was told by the message", func() bool { return u.overtakes(holder) < delay })
	p.nothingLeft(holder, u)
}

// overtakes waits for a lock that is granted while the reply to the enter is delayed, and returns how long
// the waiter needed to learn of it.
func (u *user) overtakes(holder *user) time.Duration {
	p := u.place
	p.Helper()
	held := holder.takes()
	ctx, cancel := context.WithCancel(p.T.Context())
	waiting := u.waiting(ctx, 1)
	u.hears() // and does so for a while after it left
	cancel()
	require.ErrorIs(p, within(p, "the end of the wait", waiting).err, context.Canceled)
	await(p, "the end of the ticket", func() bool { return len(p.tickets()) == 0 })

	p.only(scripts.LockEnter)
	late := p.proxy.Arm(redistest.Fault{Kind: redistest.DelayReply, Delay: delay})
	before := clock.Now()
	waiting = u.waiting(p.T.Context(), 1)
	holder.gives(held)
	within(p, "the delay", late.Fired())
	a := within(p, "the lock", waiting).mustHave(p)
	require.Equal(p, pollsPerLife*dispatch.PollInterval, a.Grant().Life)
	u.gives(a)
	return a.Grant().Read.Mono() - before.Mono()
}

// P5: the reply to an enter is lost. The ticket is kept, and there is one.
func TestEnter_NoReply_IsRepeated(t *testing.T) {
	redistest.Slow(t, "a request of unknown outcome stays open for three seconds")
	t.Parallel()
	for _, kind := range []redistest.FaultKind{redistest.CutBeforeRequest, redistest.CutAfterRequest} {
		p := newPlace(t)
		holder, u, third := p.plain(), p.behind(), p.plain()
		held := holder.takes()
		p.only(scripts.LockEnter)
		p.proxy.Arm(redistest.Fault{Kind: kind})
		waiting := u.waiting(t.Context(), 1)
		hold := p.tickets()[0]
		later := third.waiting(t.Context(), 2)
		holder.gives(held)
		a := within(t, "the lock", waiting).mustHave(t)
		require.Equal(t, hold, a.ticket()[:41])
		u.gives(a)
		third.gives(within(t, "the lock", later).mustHave(t))
		p.nothingLeft(holder, u, third)
	}
}

// P4: a copy of an enter is executed after the hold of the repeated enter was released. It is released too.
func TestEnter_CopyAfterRelease_IsReleased(t *testing.T) {
	redistest.Slow(t, "a request of unknown outcome stays open for three seconds")
	t.Parallel()
	p := newPlace(t)
	u := p.behind()
	// A copy has three seconds to come in, which a machine that stalls can use up.
	await(t, "a copy that comes in time", func() bool { return p.copiesEnter(u) })
	p.nothingLeft(u)
}

// copiesEnter lets a copy of an enter come in after the release, and reports whether it came in time.
func (p *place) copiesEnter(u *user) bool {
	p.Helper()
	await(p, "an end of the last try", func() bool { _, attempts, _ := u.Len(); return attempts == 0 })
	p.only(scripts.LockEnter)
	p.proxy.ResetCount()
	var copied []any
	p.proxy.OnRequest(func(k int, request []string) {
		for _, word := range request {
			if k == 1 {
				copied = append(copied, word)
			}
		}
	})
	lost := p.proxy.Arm(redistest.Fault{Kind: redistest.CutBeforeRequest})
	a := u.takes()
	within(p, "the first enter", lost.Fired())
	u.gives(a)
	require.Empty(p, p.holder())
	_, attempts, _ := u.Len()
	reply := p.server.MustDo(p, copied...)
	if late, is := reply.([]any); is {
		require.Equal(p, int64(-1), late[0])
		return false
	}
	require.IsType(p, int64(0), reply, "it has the lock")
	require.Equal(p, 1, attempts, "it is known that a copy may come")
	return true
}

// P4: a call that is given up leaves nothing, wherever that falls.
func TestCancelledCallLeavesNothing(t *testing.T) {
	redistest.Slow(t, "a request of unknown outcome stays open for three seconds")
	t.Parallel()
	for name, fault := range map[string]redistest.Fault{
		"BeforeItIsExecuted":   {Kind: redistest.DelayRequest, Delay: patience},
		"BeforeItIsAnswered":   {Kind: redistest.DelayReply, Delay: patience},
		"WithoutAnAnswerEver":  {Kind: redistest.SwallowReply},
		"WithoutBeingExecuted": {Kind: redistest.SwallowRequest},
	} {
		for what, isHeld := range map[string]bool{"TakeOfAHeldLock": true, "TryOfAFreeLock": false} {
			t.Run(what+name, func(t *testing.T) {
				t.Parallel()
				p := newPlace(t)
				// However long the machine stalls before the call is given up: until then there is no reply,
				// and the connection does not end.
				holder, u := p.plain(), p.join(p.proxy, nil, func(o *rueidis.ClientOption) { o.ConnWriteTimeout = 2 * patience })
				var held *Attempt
				call := u.q.Try
				if isHeld {
					held, call = holder.takes(), u.q.Take
				}
				p.only(scripts.LockEnter)
				fault := p.proxy.Arm(fault)
				ctx, cancel := context.WithCancel(t.Context())
				given := make(chan error, 1)
				go func() {
					_, err := call(ctx, wish)
					given <- err
				}()
				within(t, "the fault", fault.Fired())
				cancel()
				require.ErrorIs(t, within(t, "the end of the call", given), context.Canceled)
				if isHeld {
					require.Equal(t, held.ticket(), p.holder())
					holder.gives(held)
				}
				p.proxy.CutAll()
				p.nothingLeft(holder, u)
			})
		}
	}
}

// P4: nothing was sent, so there is nothing to leave.
func TestCallThatSentNothingSendsNoLeave(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	u := p.behind()
	p.proxy.ResetCount()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := u.q.Take(ended, wish)
	require.ErrorIs(t, err, context.Canceled)
	_, attempts, _ := u.Len()
	require.Zero(t, attempts)
	require.Zero(t, u.session.Undoer.Pending())
	require.Zero(t, p.proxy.Requests())
}

// P4, states: granted and given up in the same instant: the caller has the lock, or it is handed over.
func TestGrantToALeavingWaiterIsUsedOrHandedOver(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "a request of unknown outcome stays open for three seconds")
	p := newPlace(t)
	holder, u := p.plain(), p.plain()
	var had, left atomic.Int64
	for n := range 150 {
		held := holder.takes()
		ctx, cancel := context.WithCancel(t.Context())
		waiting := u.waiting(ctx, 1)
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
			had.Add(1)
			u.gives(got.Attempt)
		} else {
			require.ErrorIs(t, got.err, context.Canceled)
			left.Add(1)
		}
		// The key of a left attempt would say so for longer.
		redistest.AwaitFor(t, patience/2, "the passing on", func() bool { return p.holder() == "" && len(p.tickets()) == 0 })
	}
	t.Logf("%d had it, %d left", had.Load(), left.Load())
	p.nothingLeft(holder, u)
}

// Order: TryLock overtakes no living waiter, and does not ask the server if the session knows.
func TestTryOvertakesNoWaiter(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	holder, u, third := p.behind(), p.behind(), p.behind()
	held := holder.takes()
	_, err := third.q.Try(t.Context(), wish)
	require.ErrorIs(t, err, errs.ErrHeld)
	waiting := u.waiting(t.Context(), 1)
	p.only(scripts.LockEnter) // a waiter polls now and then
	p.proxy.ResetCount()
	_, err = holder.q.Try(t.Context(), wish)
	require.ErrorIs(t, err, errs.ErrHeld)
	_, err = u.q.Try(t.Context(), wish)
	require.ErrorIs(t, err, errs.ErrHeld)
	require.Zero(t, p.proxy.Requests())

	// The holder dies, and a try is the first to see it.
	p.server.MustDo(t, "PEXPIRE", u.q.keys.Holder, 15_000) // a marked key outlives its hold by that
	_, err = third.q.Try(t.Context(), wish)
	require.ErrorIs(t, err, errs.ErrHeld)
	u.gives(within(t, "the lock", waiting).mustHave(t))
	had, err := held.Release(t.Context(), 0, lease)
	require.NoError(t, err)
	require.False(t, had, "it had ended")
	a, err := third.q.Try(t.Context(), wish)
	require.NoError(t, err)
	third.gives(a)
	p.nothingLeft(holder, u, third)
}

// P6: a try gives no heartbeat, and so must not count as one: a waiter that follows it lives.
func TestWaiterAfterATryIsAlive(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	holder, u := p.plain(), p.plain()
	held := holder.takes()
	_, err := u.q.Try(t.Context(), wish)
	require.ErrorIs(t, err, errs.ErrHeld)
	waiting := u.waiting(t.Context(), 1)
	require.NotNil(t, p.server.MustDo(t, "HGET", u.q.keys.All[2], u.session.ID()))
	holder.gives(held)
	u.gives(within(t, "the lock", waiting).mustHave(t))
	p.nothingLeft(holder, u)
}

// P9, states: waiting, and the server says that waiting cannot succeed.
func TestWaiterOfAnotherKindsNameIsRefused(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	holder, u := p.plain(), p.plain()
	holder.takes()
	waiting := []<-chan outcome{u.waiting(t.Context(), 1), u.waiting(t.Context(), 2)}
	p.server.MustDo(t, "SET", u.q.keys.Holder, "sb1q1780000000000000", "PX", 60_000)
	for _, w := range waiting {
		require.ErrorIs(t, within(t, "the end of the wait", w).err, errs.ErrWrongKind)
	}
	gone := func() bool { _, attempts, _ := u.Len(); return attempts == 0 && len(p.tickets()) == 0 }
	for range 2 {
		await(t, "the end of the ticket", gone)
		_, err := u.q.Try(t.Context(), wish)
		require.ErrorIs(t, err, errs.ErrWrongKind)
		_, err = u.q.Take(t.Context(), wish)
		require.ErrorIs(t, err, errs.ErrWrongKind)
	}
	await(t, "the end of the ticket", gone)
}

// P9: nor can it if the keys of the queue belong to another program.
func TestWaiterOfAForeignQueueKeyIsRefused(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	// Beside a hold that has not changed, a session that hears messages polls every 16 s only.
	holder, u := p.plain(), p.join(p.server, func(s *session.Settings) { s.Polling = true })
	held := holder.takes()
	waiting := u.waiting(t.Context(), 1)
	p.server.MustDo(t, "SET", u.q.keys.All[1], "mine")
	require.ErrorIs(t, within(t, "the end of the wait", waiting).err, errs.ErrWrongKind)
	require.Equal(t, "mine", p.server.MustDo(t, "GET", u.q.keys.All[1]))
	p.server.MustDo(t, "DEL", u.q.keys.All[1])
	holder.gives(held)
	p.nothingLeft(holder, u)
}

// P6: a session that polls waits with polls.
func TestPollingSessionIsGrantedTheLock(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	holder, u := p.plain(), p.join(p.server, func(s *session.Settings) { s.Polling = true })
	held := holder.takes()
	waiting := u.waiting(t.Context(), 1)
	holder.gives(held)
	u.gives(within(t, "the lock", waiting).mustHave(t))
	require.Zero(t, p.server.CommandStats()["subscribe"].Calls)
	p.nothingLeft(holder, u)
}
