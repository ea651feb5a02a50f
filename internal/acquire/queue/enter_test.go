// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/errs"
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
	require.NotNil(t, f.server.MustDo(t, "HGET", u.q.keys.AppendKeys(nil)[2], u.session.ID()))
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
