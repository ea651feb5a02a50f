// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/timers"
)

// awaitGrant waits until the request is granted the lock.
func (f *fixture) awaitGrant(next Ticket) *Attempt {
	f.Helper()
	granted := make(chan error, 1)
	go func() { granted <- next.Wait(f.Context()) }()
	require.NoError(f, within(f, "the lock", granted))
	a := grantedTo(next)
	require.NotNil(f, a)
	return a
}

// P2, P9: the hold is over. The caller gets that error, and the session queues only if a queue may exist.
func TestRequeue_HoldIsLost_IsReported(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lose     func(u *user, a *Attempt)
		isQueued bool
	}{
		"KeyLost": {func(u *user, _ *Attempt) { u.fixture.server.MustDo(u.fixture, "DEL", u.q.keys.Holder) }, false},
		"OtherKind": {func(u *user, _ *Attempt) {
			u.fixture.server.MustDo(u.fixture, "SET", u.q.keys.Holder, "sb1q1780000000000000")
		}, false},
		"Forced": {func(u *user, a *Attempt) {
			u.fixture.server.MustDo(u.fixture, "EVAL", proto.LockForceScript.Source, 3, u.q.keys.AppendKeys(nil)[0], u.q.keys.AppendKeys(nil)[1], u.q.keys.AppendKeys(nil)[2],
				a.ticket()[:41], "PUBLISH", u.q.channel(), "", "60000")
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			u, other := f.direct(), f.direct()
			a := u.acquire()
			var waiting <-chan outcome
			if c.isQueued {
				waiting = other.startWaiting(t.Context(), 1)
			}
			c.lose(u, a)
			next, wasHeld, err := a.Requeue(t.Context(), 0, lease)
			require.NoError(t, err)
			require.False(t, wasHeld)
			require.Equal(t, c.isQueued, next != nil)
			if c.isQueued {
				other.release(within(t, "the lock", waiting).mustHave(t))
				u.release(f.awaitGrant(next))
			}
			f.server.MustDo(t, "DEL", u.q.keys.Holder)
			f.awaitNothingLeft(u, other)
		})
	}
}

// localHoldSpy is a session.LocalHold that notes why it was evicted.
type localHoldSpy chan error

func (s localHoldSpy) Evict(cause error) { s <- cause }

func (s localHoldSpy) Superseded() { s <- errs.ErrLostGone }
func (localHoldSpy) Recheck()      {}

func newLocalHoldSpy() localHoldSpy { return make(localHoldSpy, 1) }

// P1: the hold with the greatest token is the one at the server. It ends the others of its session, in whatever order they
// arrive.
func TestNewestGrantWins(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u := f.direct()
	a := u.acquire()
	mine := newLocalHoldSpy()
	a.Register(mine)
	waiting := u.startWaiting(t.Context(), 1)
	u.stopTimers()
	b := u.awaitWaiting()
	u.mu.Lock()
	number := u.heartbeatLocked(timers.Now()).number
	b.applyGrantLocked(a.grant.Stamp-1, number, timers.Now())
	isGranted, pollFirst := b.state == granted, b.place == listedFirst
	u.mu.Unlock()
	require.False(t, isGranted, "it is the older one")
	require.True(t, pollFirst)
	require.Empty(t, mine)

	u.Queues.applyGrants(b.id() + (a.Grant().Stamp + 1).Text() + number)
	require.Same(t, b, within(t, "the grant", waiting).mustHave(t))
	newer := newLocalHoldSpy()
	b.Register(newer)
	require.ErrorIs(t, within(t, "the end of the older hold", mine), errs.ErrLost)
	a.Register(mine) // its goroutine ran late
	require.ErrorIs(t, within(t, "the end of the older hold", mine), errs.ErrLost)
	require.Empty(t, newer)
	_, err := b.Release(t.Context(), 0, lease) // it has a ticket at the server
	require.NoError(t, err)
	u.release(a)
	f.awaitNothingLeft(u)
}

// P1: nor is a reply delivered that says of a hold that it is older than another one of the session. The attempt polls, and
// has the lock when the other hold is over.
func TestOlderReply_IsNotDelivered(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u := f.direct()
	newer := &Attempt{q: u.q, grant: Grant{Stamp: 1 << 60}}
	newer.Register(newLocalHoldSpy())
	_, err := u.q.try(t.Context(), lockRequest)
	require.ErrorIs(t, err, errs.ErrHeld)
	f.awaitNothingLeft(u)

	newer.end()
	a := u.acquire()
	next := u.q.newRequest(lockRequest)
	call, sent := requeueExchange{next.attempt()}.requeueCall(a, 0)
	reply, err := u.session.Runner.Run(t.Context(), call)
	require.NoError(t, err)
	a.end()
	leaveExchange{a}.finish(false)
	newer.Register(newLocalHoldSpy())
	requeued := proto.ReadRequeued(&reply)
	require.True(t, requeueExchange{next.attempt()}.handleRequeueReply(&requeued, sent))
	state := next.attempt().currentState()
	require.Equal(t, queued, state)
	newer.end()
	u.release(f.awaitGrant(next))
	f.awaitNothingLeft(u)
}
