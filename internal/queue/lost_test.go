// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/notify"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// P1, P5: two copies of one process, restored from a snapshot, have one session id. Neither may release what
// the other holds.
func TestUnknownHoldIsLeftAlone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u := f.proxied()
	copied := u.session.NewHold()
	keys := u.q.keys
	f.server.MustDo(t, "SET", keys.Holder, "sb1l1780000000000000"+copied+"f-", "PX", 3_600_000)
	f.matchPolls()
	f.proxy.ResetCount()
	waiting := u.startWaiting(t.Context(), 1)
	u.awaitSubscription()
	u.forcePoll()
	require.Equal(t, copied+"f", f.holder())
	u.Queues.applyGrants(grantMessage(copied[22:], strings.Repeat("-", numberSize)))
	require.Zero(t, u.session.Undoer.Pending())
	f.server.MustDo(t, "DEL", keys.Holder)
	u.forcePoll()
	u.release(within(t, "the lock, once that has ended", waiting).mustHave(t))
	f.awaitNothingLeft(u)
}

// P2: nor are its heartbeats.
func TestHeartbeatOfACopyHasAnotherNumber(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u, other := f.direct(), f.direct()
	u.mu.Lock()
	other.mu.Lock()
	mine, copied := u.nextNumberLocked(), other.nextNumberLocked()
	u.mu.Unlock()
	other.mu.Unlock()
	require.Len(t, mine, numberSize)
	require.Equal(t, mine[:12], copied[:12])
	require.NotEqual(t, mine, copied)
}

// States: entering or waiting, and a message whose heartbeat is not known, or over: it polls at once.
func TestGrantOfUnknownHeartbeatIsPolledAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	holder, u := f.direct(), f.proxied()
	held := holder.acquire()
	waiting := u.startWaiting(t.Context(), 1)
	u.awaitSubscription()
	f.matchPolls()
	attempt := f.tickets()[0][22:]
	hint := func() {
		polls := f.proxy.Replies()
		u.Queues.applyGrants(grantMessage(attempt, "000000000001notknown"))
		await(t, "a poll", func() bool { return f.proxy.Replies() > polls })
		require.Empty(t, waiting)
	}
	await(t, "a poll long before the next one is due", func() bool { // each poll is forced right after another
		hint()
		began := time.Now()
		hint()
		return time.Since(began) < notify.PollInterval/2
	})

	u.mu.Lock()
	entered := u.mu.attempts.get(attempt)
	entered.state = entering // its reply is on its way: the poll has to list it all the same
	entered.applyGrantLocked(1, "000000000001notknown", timers.Now())
	require.True(t, entered.place == listedFirst)
	entered.state = queued
	tries := &Attempt{q: u.q}
	tries.applyGrantLocked(1, "000000000001notknown", timers.Now())
	require.Equal(t, noPlace, tries.place, "an attempt that only tries does not wait")
	u.mu.Unlock()
	holder.release(held)
	u.release(within(t, "the lock", waiting).mustHave(t))
	f.awaitNothingLeft(holder, u)
}

// P2: the message that a lock was forced may overtake the grant of a waiter, and a session that begins to listen has
// missed no grant.
func TestWaiterOfAForcedLockRechecksItsHold(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	holder, u := f.direct(), f.direct()
	held := holder.acquire()
	waiting := u.startWaiting(t.Context(), 1)
	a := u.awaitWaiting()
	u.mu.Lock()
	a.flags = 0 // the session may have begun to listen while it entered
	u.mu.Unlock()
	for _, c := range []struct {
		recheck      func()
		needsRecheck bool
	}{
		{func() { u.session.Recheck("") }, false},
		{func() { u.session.Recheck("another") }, false},
		{func() { u.session.Recheck(u.q.keys.Holder) }, true},
	} {
		c.recheck()
		u.mu.Lock()
		isQueued, rechecks := a.state == queued, a.flags&needsRecheck != 0
		u.mu.Unlock()
		require.True(t, isQueued)
		require.Equal(t, c.needsRecheck, rechecks)
	}
	holder.release(held)
	u.release(within(t, "the lock", waiting).mustHave(t))
	f.awaitNothingLeft(holder, u)
}

// P10: a hand-off that stopped in its middle, for lack of a right, leaves the ticket of the attempt that it granted the lock.
// The ticket lasts longer than the hold, and so does the repetition of a release that is denied too.
func TestDeniedReleaseIsRepeatedAfterItsHoldHasEnded(t *testing.T) {
	t.Parallel()
	for name, releases := range map[string]func(ctx context.Context, a *Attempt) error{
		"Release": func(ctx context.Context, a *Attempt) error {
			_, err := a.Release(ctx, 0, 0)
			return err
		},
		"Requeue": func(ctx context.Context, a *Attempt) error {
			_, _, err := a.Requeue(ctx, 0, 0)
			return err
		},
		"ReleaseMany": func(ctx context.Context, a *Attempt) error {
			r := &LockRelease{Attempt: a}
			ReleaseMany(ctx, proto.LockReleaseManyScript, []*LockRelease{r})
			return r.Err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			holder, u := f.direct(), f.direct()
			held := holder.acquire()
			waiting := u.startWaiting(t.Context(), 1)
			holder.release(held)
			a := within(t, "the lock", waiting).mustHave(t)
			f.server.MustDo(t, "ZADD", u.q.keys.AppendKeys(nil)[1], "1", a.Name())
			f.server.MustDo(t, "ACL", "SETUSER", "default", "-zrem", "-zpopmin")
			u.done(u.q) // a session that still uses the lock repeats the release anyway
			require.ErrorIs(t, releases(t.Context(), a), errs.ErrDenied)
			before := f.server.CommandStats()["evalsha"].Calls
			await(t, "a few repetitions", func() bool { return f.server.CommandStats()["evalsha"].Calls >= before+3 })
			f.server.MustDo(t, "HSET", u.q.keys.AppendKeys(nil)[2], u.session.ID(), // silent for a second: no hand-off removes its ticket
				wire.Stamp(time.Now().Add(-time.Second).UnixMicro()).Text()+strings.Repeat("0", 20))
			f.server.MustDo(t, "ACL", "SETUSER", "default", "+zrem", "+zpopmin")
			f.awaitNothingLeft(holder, u)
			u.q = u.use(u.q.keys)
		})
	}
}

// P10: an attempt that was granted the lock at once has no ticket. Its repeated release needs no right that only a ticket needs.
func TestDeniedReleaseAsksForNoFurtherRight(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u := f.direct()
	a := u.acquire()
	f.server.MustDo(t, "ACL", "SETUSER", "default", "-set", "-del", "-zrem")
	_, err := a.Release(t.Context(), 0, lease)
	require.ErrorIs(t, err, errs.ErrDenied)
	f.server.MustDo(t, "ACL", "SETUSER", "default", "+set")
	f.awaitNothingLeft(u)
}
