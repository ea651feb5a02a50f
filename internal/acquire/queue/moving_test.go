// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"crypto/sha1" //nolint:gosec // how servers name scripts
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/scripts"
)

// moving makes a script that is refused while the slot moves, unless it has the holder key alone.
func moving(script *scripts.Script) *scripts.Script {
	source := "if #KEYS > 1 and redis.call('EXISTS', 'moving') == 1 then return redis.error_reply('TRYAGAIN it moves') end\n" + script.Source
	sum := sha1.Sum([]byte(source)) //nolint:gosec // see the import
	return &scripts.Script{Name: script.Name, Version: script.Version, Source: source, SHA1: hex.EncodeToString(sum[:])}
}

// mover returns a session whose lock is in a slot that can be moved.
func (p *place) mover() *user {
	p.Helper()
	kind := Config{
		Enter: moving(scripts.LockEnter), Poll: moving(scripts.LockPoll), Heartbeat: moving(scripts.LockHeartbeat), Leave: moving(scripts.LockLeave),
		Requeue: moving(scripts.LockRequeue),
	}
	return p.joinAs(p.server, kind, keysOf(p, "a"), nil, steady)
}

// moves begins to move the slot, and arrives ends that.
func (p *place) moves()   { p.server.MustDo(p, "SET", "moving", 1, "PX", 600_000) }
func (p *place) arrives() { p.server.MustDo(p, "DEL", "moving") }

// P6: while its slot moves, a free lock without a queue can be acquired and released, by the holder key alone.
func TestMovingSlot_FreeLock_IsAcquiredAndReleased(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	u, other := p.mover(), p.mover()
	p.moves()
	for _, take := range []func() (*Attempt, error){
		func() (*Attempt, error) { return u.q.Take(t.Context(), wish) },
		func() (*Attempt, error) { return u.q.Try(t.Context(), wish) },
	} {
		a, err := take()
		require.NoError(t, err)
		require.Equal(t, a.ticket(), p.holder())
		_, err = other.q.Try(t.Context(), wish)
		require.ErrorIs(t, err, errs.ErrHeld)
		u.gives(a)
		p.nothingLeft(u, other) // by one release, which does not need the queue
	}
}

// P4: a hold that may have a ticket, because of an earlier enter, is over only when the queue was checked.
func TestMovingSlot_SecondEnter_ChecksTheQueue(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	u := p.mover()
	next := u.q.Prepare(wish, new(QueuedRequest))
	u.mu.Lock()
	next.attempt.entersSent++ // its reply was lost
	u.mu.Unlock()
	p.server.MustDo(t, "ZADD", u.q.keys.All[1], 1, next.attempt.ticket())
	p.moves()
	u.gives(p.gets(next))
	require.Empty(t, p.holder())
	require.Len(t, p.tickets(), 1)
	p.arrives()
	p.nothingLeft(u)
}

// P6: a release leaves the lock to the queue, which no caller overtakes, and a poll grants it when the slot
// has arrived.
func TestMovingSlot_Release_LeavesTheLockToTheQueue(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	u, other := p.mover(), p.mover()
	a := u.takes()
	waiting := other.waiting(t.Context(), 1)
	p.moves()
	u.gives(a)
	require.Empty(t, p.holder())
	_, err := u.q.Try(t.Context(), wish)
	require.ErrorIs(t, err, errs.ErrHeld, "it overtakes a waiter")
	require.Empty(t, waiting)
	p.arrives()
	other.gives(within(t, "the lock", waiting).mustHave(t))
	p.nothingLeft(u, other)
}

// T4: a requeue holds at once if there is no queue; else it releases, and there is no ticket.
func TestMovingSlot_Requeue_UsesTheHolderKey(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	u, other := p.mover(), p.mover()
	a := u.takes()
	p.moves()
	b := p.gets(u.requeues(a))
	require.Equal(t, b.ticket(), p.holder())
	p.arrives()
	waiting := other.waiting(t.Context(), 1)
	p.moves()
	next, had, err := b.Requeue(t.Context(), 0, lease)
	require.NoError(t, err)
	require.True(t, had)
	require.Nil(t, next)
	require.Empty(t, p.holder())
	p.arrives()
	other.gives(within(t, "the lock", waiting).mustHave(t))
	p.nothingLeft(u, other)
}

// T4: nor is anything left of a hold that was lost before.
func TestMovingSlot_RequeueOfALostHold_LeavesNothing(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	u := p.mover()
	a := u.takes()
	p.server.MustDo(t, "DEL", u.q.keys.Holder)
	p.moves()
	next, had, err := a.Requeue(t.Context(), 0, lease)
	require.NoError(t, err)
	require.False(t, had)
	require.Nil(t, next)
	_, attempts, _ := u.Len()
	require.Equal(t, 1, attempts, "the queue was not looked at")
	p.arrives()
	p.nothingLeft(u)
}
