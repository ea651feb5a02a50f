// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/timers"
)

// keptRequest is lockRequest for a hold that may be kept.
var keptRequest = &Request{Life: lease, FloorTTL: "60000", Mode: "k", KeepFor: time.Minute}

// keptSpy is a local hold that notes its recalls.
type keptSpy struct {
	localHoldSpy

	recalls chan struct{}
}

func (s keptSpy) OnRecall() { s.recalls <- struct{}{} }

// keep returns a hold of u that may be kept, and that has begun. It acquires the lock at once.
func (u *user) keep() (*Attempt, keptSpy) {
	u.fixture.Helper()
	a := within(u.fixture, "the lock", u.startAcquireAs(u.fixture.Context(), keptRequest)).mustHave(u.fixture)
	spy := keptSpy{newLocalHoldSpy(), make(chan struct{}, 8)}
	a.Register(spy)
	return a, spy
}

// leaves releases a hold of which the first token was used. An enter that comes at once gets the time as its stamp.
func (u *user) leaves(a *Attempt) {
	u.fixture.Helper()
	_, err := a.Release(u.fixture.Context(), a.Grant().Stamp, lease)
	require.NoError(u.fixture, err)
}

// awaitRecalls waits until the session learns of recalls.
func (u *user) awaitRecalls() {
	u.fixture.Helper()
	u.session.Forces.ListenForRecalls()
	await(u.fixture, "the subscription", func() bool { return u.session.Forces.ReceivesRecalls(timers.Now()) })
}

// joinBusy returns a session at the server that holds another lock, and so does not become idle.
func (f *fixture) joinBusy(at dialer) *user {
	f.Helper()
	u := f.join(at, nil, steady)
	require.NoError(f, u.session.Begin())
	f.Cleanup(u.session.End)
	return u
}

// P6: a hold is kept only if its enter, or a renewal that found no mark, was sent since recalls arrive. If they cease to arrive,
// it is kept no more, and neither is it when they arrive again.
func TestNothingIsKeptWithoutASubscription(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u := f.join(f.server, nil, steady)
	u.session.Timers.Pause() // it does not begin to listen
	require.NoError(t, u.session.Begin())
	t.Cleanup(u.session.End)
	a, spy := u.keep()
	early := timers.Now()
	require.False(t, a.MayKeep(), "its enter was sent before")
	u.session.Timers.Resume()
	u.awaitRecalls()
	require.False(t, a.MayKeep())
	a.OnKept(early, false)
	require.False(t, a.MayKeep(), "the renewal was sent before")
	a.OnKept(timers.Now(), false)
	require.True(t, a.MayKeep())

	f.server.MustDo(t, "CLIENT", "KILL", "TYPE", "pubsub")
	within(t, "the end of recalls", spy.recalls)
	require.False(t, a.MayKeep())
	u.awaitRecalls()
	a.OnKept(timers.Now(), false)
	require.False(t, a.MayKeep(), "another session may have tried meanwhile")
	u.leaves(a)

	a, _ = u.keep()
	require.True(t, a.MayKeep(), "its enter was sent since")
	u.leaves(a)
	require.False(t, a.MayKeep(), "it is over")
}

// P6: a recall may overtake the reply of the enter, and what comes after that until the hold begins. It is remembered.
func TestRecallBeforeTheReplyIsRemembered(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u := f.joinBusy(f.server)
	u.awaitRecalls()
	channel := proto.Session(proto.DefaultPrefix, u.session.ID())
	for name, recall := range map[string]func(a *Attempt){
		"Recall":    func(a *Attempt) { u.Recall(a.id()) },
		"RecallAll": func(*Attempt) { u.RecallAll() },
		"Message": func(a *Attempt) {
			f.server.MustDo(t, "PUBLISH", channel, "recall:"+a.id())
			await(t, "the recall", func() bool {
				u.mu.Lock()
				defer u.mu.Unlock()
				return a.idle == wanted
			})
		},
	} {
		a := u.q.newWaitingAttempt(keptRequest)
		recall(a)
		require.NoError(t, enterExchange{a}.sendEnter(t.Context()), name)
		require.True(t, a.endWaiting(), name)
		spy := keptSpy{newLocalHoldSpy(), make(chan struct{}, 8)}
		a.Register(spy)
		within(t, name, spy.recalls)
		require.False(t, a.MayKeep(), name)
		u.leaves(a)
	}
}

// P6: a hold that the queue granted has a mark and is not kept, and neither is one that a requeue returned.
func TestHoldOfTheQueueIsNotKept(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u, other := f.joinBusy(f.server), f.direct()
	u.awaitRecalls()
	theirs := other.acquire()
	waiter := u.startAcquireAs(t.Context(), keptRequest)
	await(t, "a ticket", func() bool { return len(f.tickets()) == 1 })
	other.release(theirs)
	a := within(t, "the lock", waiter).mustHave(t)
	a.Register(keptSpy{newLocalHoldSpy(), make(chan struct{}, 8)})
	a.OnKept(timers.Now(), false)
	require.False(t, a.MayKeep())
	u.leaves(a)

	a, _ = u.keep()
	require.True(t, a.MayKeep())
	require.NoError(t, u.session.Begin())
	next, wasHeld, err := a.Requeue(t.Context(), 0, lease)
	require.NoError(t, err)
	require.True(t, wasHeld)
	h, _ := next.Granted()
	a = attemptOf(h)
	require.Equal(t, byte('k'), f.holder()[41])
	a.Register(keptSpy{newLocalHoldSpy(), make(chan struct{}, 8)})
	a.OnKept(timers.Now(), false)
	require.False(t, a.MayKeep())
	u.leaves(a)
	h.Done()
}

// P6: a hold is not kept while another attempt of its session waits for the lock.
func TestHoldThatItsSessionWantsIsNotKept(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u := f.joinBusy(f.server)
	u.awaitRecalls()
	a, _ := u.keep()
	fair := u.q.newWaitingAttempt(lockRequest)
	require.False(t, a.MayKeep())
	fair.endWaiting()
	fair.Abandon()
	require.True(t, a.MayKeep(), "nothing of it was sent")
	u.leaves(a)
}
