// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// requeues releases a, which must have the lock, and queues its session again.
func (u *user) requeues(a *Attempt) *QueuedRequest {
	u.place.Helper()
	next, had, err := a.Requeue(u.place.Context(), 0, lease)
	require.NoError(u.place, err)
	require.True(u.place, had, "it was taken away")
	require.NotNil(u.place, next, "it has no ticket")
	return next
}

// gets waits until the place is granted the lock.
func (p *place) gets(next *QueuedRequest) *Attempt {
	p.Helper()
	granted := make(chan error, 1)
	go func() { granted <- next.Wait(p.Context()) }()
	require.NoError(p, within(p, "the lock", granted))
	a := next.Leave()
	require.NotNil(p, a)
	return a
}

// P7: without a waiter elsewhere the new attempt holds at once, by one script.
func TestRequeue_NoWaiter_HoldsAtOnce(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	u := p.behind()
	a := u.takes()
	p.proxy.ResetCount()
	next := u.requeues(a)
	isGranted, err := next.Join(t.Context())
	require.NoError(t, err)
	require.True(t, isGranted)
	b := p.gets(next)
	require.Equal(t, 1, p.proxy.Requests())
	require.Equal(t, b.ticket(), p.holder())
	require.NotEqual(t, a.ticket(), b.ticket())
	require.Greater(t, b.Grant().Stamp, a.Grant().Last, "the token in use is not known")
	require.Equal(t, lease, b.Grant().Life)
	_, attempts, _ := u.Len()
	require.Equal(t, 1, attempts, "the old one is forgotten")
	u.gives(b)
	p.nothingLeft(u)
}

// Order: the waiter of another session is served first, and the new ticket is behind it.
func TestRequeue_Waiter_QueuesBehindIt(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	u, other := p.behind(), p.plain()
	a := u.takes()
	waiting := other.waiting(t.Context(), 1)
	next := u.requeues(a)
	isGranted, err := next.Join(t.Context())
	require.NoError(t, err)
	require.False(t, isGranted)
	held := within(t, "the lock", waiting).mustHave(t)
	require.Equal(t, []string{next.attempt.ticket()[:41]}, p.tickets())
	require.NotNil(t, p.server.MustDo(t, "HGET", u.q.keys.All[2], u.session.ID()), "a requeue is a heartbeat")
	other.gives(held)
	b := p.gets(next)
	require.Greater(t, b.Grant().Stamp, held.Grant().Stamp)
	u.gives(b)
	p.nothingLeft(u, other)
}

// P6: another attempt of the session learns of its grant from the reply.
func TestRequeue_OtherAttemptOfSession_IsGranted(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	u := p.behind()
	a := u.takes()
	waiting := u.waiting(t.Context(), 1)
	u.hears()
	u.withoutPolls()
	p.proxy.DropPushes(true)
	next := u.requeues(a)
	held := within(t, "the lock", waiting).mustHave(t)
	require.Equal(t, held.ticket(), p.holder())
	had, err := held.Release(t.Context(), 0, lease)
	require.NoError(t, err)
	require.True(t, had)
	u.gives(p.gets(next)) // by the reply to the release
	p.nothingLeft(u)
}

// P4: the server executes the call after its not-after. The hold is over, and there is no new ticket.
func TestRequeue_Late_OnlyReleases(t *testing.T) {
	t.Parallel()
	for _, isMarked := range []bool{false, true} {
		p := newPlace(t)
		u, other := p.behind(), p.plain()
		a := u.takes()
		var waiting <-chan outcome
		if isMarked {
			waiting = other.waiting(t.Context(), 1)
		}
		next := u.q.Prepare(wish, new(QueuedRequest))
		call, sent := next.attempt.requeueCall(a, 0)
		call.Args[3] = wire.Stamp(1780000000000000).Text()
		reply, err := u.session.Runner.Run(t.Context(), call)
		require.NoError(t, err)
		require.Equal(t, requeueResult{wasHeld: true, nothingLeft: true}, parseRequeueResult(reply))
		require.False(t, next.attempt.handleRequeueReply(reply, sent))
		require.Nil(t, next.Leave())
		a.end()
		a.handleReleaseReply(false)
		if isMarked {
			other.gives(within(t, "the lock", waiting).mustHave(t))
		}
		p.nothingLeft(u, other)
	}
}

// P5: the request or its reply is lost. The old hold is released, the new ticket is polled for, and nothing is left behind.
func TestRequeue_NoReply_ReleasesAndWaits(t *testing.T) {
	redistest.Slow(t, "a request of unknown outcome stays open for three seconds")
	t.Parallel()
	for _, kind := range []redistest.FaultKind{redistest.SwallowRequest, redistest.SwallowReply, redistest.CutBeforeRequest, redistest.CutAfterRequest} {
		for name, isQueued := range map[string]bool{"Alone": false, "WithAWaiter": true} {
			t.Run(kind.String()+name, func(t *testing.T) {
				t.Parallel()
				p := newPlace(t)
				u, other := p.behind(), p.plain()
				a := u.takes()
				var waiting <-chan outcome
				if isQueued {
					waiting = other.waiting(t.Context(), 1)
				}
				p.only(scripts.LockRequeue)
				struck := p.proxy.Arm(redistest.Fault{Kind: kind})
				ctx, cancel := context.WithCancel(t.Context())
				go func() { <-struck.Fired(); cancel() }()
				next, _, err := a.Requeue(ctx, 0, lease)
				require.Error(t, err)
				require.NotNil(t, next, "it may have a ticket")
				p.proxy.CutAll()
				if isQueued {
					other.gives(within(t, "the lock", waiting).mustHave(t))
				}
				b := p.gets(next)
				require.NotEqual(t, a.ticket(), b.ticket())
				u.gives(b)
				p.nothingLeft(u, other)
			})
		}
	}
}

// P5: a waiter that gives up after that leaves nothing either.
func TestRequeue_NoReplyAndGivenUp_LeavesNothing(t *testing.T) {
	redistest.Slow(t, "a request of unknown outcome stays open for three seconds")
	t.Parallel()
	p := newPlace(t)
	u := p.behind()
	a := u.takes()
	p.only(scripts.LockRequeue)
	struck := p.proxy.Arm(redistest.Fault{Kind: redistest.CutAfterRequest})
	next, _, err := a.Requeue(t.Context(), 0, lease)
	require.Error(t, err)
	within(t, "the fault", struck.Fired())
	if b := next.Leave(); b != nil {
		b.Abandon()
	}
	p.nothingLeft(u)
}

// P9: the server refuses the call, since the key belongs to another program. There is no new ticket.
func TestRequeue_Refused_QueuesNothing(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	u := p.plain()
	a := u.takes()
	p.server.MustDo(t, "DEL", u.q.keys.Holder)
	p.server.MustDo(t, "RPUSH", u.q.keys.Holder, "mine")
	next, had, err := a.Requeue(t.Context(), 0, lease)
	require.ErrorIs(t, err, errs.ErrWrongKind)
	require.False(t, had)
	require.Nil(t, next)
	require.Empty(t, p.tickets())
	p.server.MustDo(t, "DEL", u.q.keys.Holder)
	p.nothingLeft(u)
}

// P2, P9: the hold is over. The caller gets that error, and the session queues only if a queue may exist.
func TestRequeue_HoldIsLost_IsReported(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lose     func(u *user, a *Attempt)
		isQueued bool
	}{
		"KeyLost": {func(u *user, _ *Attempt) { u.place.server.MustDo(u.place, "DEL", u.q.keys.Holder) }, false},
		"OtherKind": {func(u *user, _ *Attempt) {
			u.place.server.MustDo(u.place, "SET", u.q.keys.Holder, "sb1q1780000000000000")
		}, false},
		"Forced": {func(u *user, a *Attempt) {
			u.place.server.MustDo(u.place, "EVAL", scripts.LockForce.Source, 3, u.q.keys.All[0], u.q.keys.All[1], u.q.keys.All[2],
				a.ticket()[:41], "PUBLISH", u.q.keys.Channel, "", "60000")
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			u, other := p.plain(), p.plain()
			a := u.takes()
			var waiting <-chan outcome
			if c.isQueued {
				waiting = other.waiting(t.Context(), 1)
			}
			c.lose(u, a)
			next, had, err := a.Requeue(t.Context(), 0, lease)
			require.NoError(t, err)
			require.False(t, had)
			require.Equal(t, c.isQueued, next != nil)
			if c.isQueued {
				other.gives(within(t, "the lock", waiting).mustHave(t))
				u.gives(p.gets(next))
			}
			p.server.MustDo(t, "DEL", u.q.keys.Holder)
			p.nothingLeft(u, other)
		})
	}
}

// T6: the tokens of the next hold are behind the last one used, and need not be behind the whole block.
func TestRequeue_BringsTheFloor(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	u := p.plain()
	a := u.takes()
	future := a.Grant().Stamp + wire.Stamp(time.Hour.Microseconds())
	value, _ := p.server.MustDo(t, "GET", u.q.keys.Holder).(string)
	p.server.MustDo(t, "SET", u.q.keys.Holder, value[:4]+future.Text()+value[20:], "KEEPTTL") // the server's clock is set back
	next, had, err := a.Requeue(t.Context(), future+7, lease)
	require.NoError(t, err)
	require.True(t, had)
	b := p.gets(next)
	require.Equal(t, future+8, b.Grant().Stamp)
	require.Equal(t, future+8+wire.TokenBlock-1, b.Grant().Last)
	u.gives(b)
	p.nothingLeft(u)
}

// tenant is a Tenant that notes why it was evicted.
type tenant chan error

func (n tenant) Evict(cause error) { n <- cause }

func (n tenant) Superseded() { n <- errs.ErrLostGone }
func (tenant) Recheck()      {}

func newTenant() tenant { return make(tenant, 1) }

// P1: the hold with the greatest token is the one at the server. It ends the others of its session, in whatever order they
// are heard of.
func TestNewestGrantWins(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	u := p.plain()
	a := u.takes()
	mine := newTenant()
	a.Begin(mine)
	waiting := u.waiting(t.Context(), 1)
	u.withoutPolls()
	b := u.waiter()
	u.mu.Lock()
	paid := u.heartbeatLocked(clock.Now()).number
	b.applyGrantLocked(a.grant.Stamp-1, paid, clock.Now())
	isGranted, isUrgent := b.state == granted, b.pollFirst
	u.mu.Unlock()
	require.False(t, isGranted, "it is the older one")
	require.True(t, isUrgent)
	require.Empty(t, mine)

	u.Registry.applyGrants(b.attempt() + (a.Grant().Stamp + 1).Text() + paid)
	require.Same(t, b, within(t, "the grant", waiting).mustHave(t))
	newer := newTenant()
	b.Begin(newer)
	require.ErrorIs(t, within(t, "the end of the older hold", mine), errs.ErrLost)
	a.Begin(mine) // its goroutine ran late
	require.ErrorIs(t, within(t, "the end of the older hold", mine), errs.ErrLost)
	require.Empty(t, newer)
	_, err := b.Release(t.Context(), 0, lease) // it has a ticket at the server
	require.NoError(t, err)
	u.gives(a)
	p.nothingLeft(u)
}

// P1: nor is a reply delivered that says of a hold that it is older than another one of the session. The attempt polls, and
// has the lock when the other hold is over.
func TestOlderReply_IsNotDelivered(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	u := p.plain()
	newer := &Attempt{q: u.q, grant: Grant{Stamp: 1 << 60}}
	newer.Begin(newTenant())
	_, err := u.q.Try(t.Context(), wish)
	require.ErrorIs(t, err, errs.ErrHeld)
	p.nothingLeft(u)

	newer.end()
	a := u.takes()
	next := u.q.Prepare(wish, new(QueuedRequest))
	call, sent := next.attempt.requeueCall(a, 0)
	reply, err := u.session.Runner.Run(t.Context(), call)
	require.NoError(t, err)
	a.end()
	a.handleReleaseReply(false)
	newer.Begin(newTenant())
	require.True(t, next.attempt.handleRequeueReply(reply, sent))
	state, _ := next.attempt.currentState()
	require.Equal(t, queued, state)
	newer.end()
	u.gives(p.gets(next))
	p.nothingLeft(u)
}
