// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/errs"
)

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
