// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"crypto/sha1" //nolint:gosec // how servers name scripts
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/scripts"
)

// moving makes a script that is refused while the slot moves, unless it has the holder key alone.
func moving(script *scripts.Script) *scripts.Script {
	source := "if #KEYS > 1 and redis.call('EXISTS', 'moving') == 1 then return redis.error_reply('TRYAGAIN it moves') end\n" + script.Source
	sum := sha1.Sum([]byte(source)) //nolint:gosec // see the import
	return &scripts.Script{Name: script.Name, Version: script.Version, Source: source, SHA1: hex.EncodeToString(sum[:])}
}

// joinMoving returns a session whose lock is in a slot that can be moved.
func (f *fixture) joinMoving() *user {
	f.Helper()
	protocol := Protocol{QueueScripts: &proto.QueueScripts{
		Enter: moving(proto.LockEnterScript), Poll: moving(proto.LockPollScript), Heartbeat: moving(proto.LockHeartbeatScript), Leave: moving(proto.LockLeaveScript),
		Requeue: moving(proto.LockRequeueScript),
	}}
	return f.joinAs(f.server, protocol, keysOf(f, "a"), nil, steady)
}

// startMove begins to move the slot, and arrives ends that.
func (f *fixture) startMove() { f.server.MustDo(f, "SET", "moving", 1, "PX", 600_000) }
func (f *fixture) endMove()   { f.server.MustDo(f, "DEL", "moving") }

// P6: while its slot moves, a free lock without a queue can be acquired and released, by the holder key alone.
func TestMovingSlot_FreeLock_IsAcquiredAndReleased(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u, other := f.joinMoving(), f.joinMoving()
	f.startMove()
	for _, take := range []func() (*Attempt, error){
		func() (*Attempt, error) { return u.q.Take(t.Context(), lockRequest) },
		func() (*Attempt, error) { return u.q.try(t.Context(), lockRequest) },
	} {
		a, err := take()
		require.NoError(t, err)
		require.Equal(t, a.ticket(), f.holder())
		_, err = other.q.try(t.Context(), lockRequest)
		require.ErrorIs(t, err, errs.ErrHeld)
		u.release(a)
		f.awaitNothingLeft(u, other) // by one release, which does not need the queue
	}
}

// P4: a hold that may have a ticket, because of an earlier enter, is over only when the queue was checked.
func TestMovingSlot_SecondEnter_ChecksTheQueue(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u := f.joinMoving()
	next := u.q.newRequest(lockRequest)
	u.mu.Lock()
	next.attempt().footprint.Sent++ // its reply was lost
	u.mu.Unlock()
	f.server.MustDo(t, "ZADD", u.q.keys.AppendKeys(nil)[1], 1, next.attempt().ticket())
	f.startMove()
	u.release(f.awaitGrant(next))
	require.Empty(t, f.holder())
	require.Len(t, f.tickets(), 1)
	f.endMove()
	f.awaitNothingLeft(u)
}

// P6: a release leaves the lock to the queue, which no caller overtakes, and a poll grants it when the slot
// has arrived.
func TestMovingSlot_Release_LeavesTheLockToTheQueue(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u, other := f.joinMoving(), f.joinMoving()
	a := u.acquire()
	waiting := other.startWaiting(t.Context(), 1)
	f.startMove()
	u.release(a)
	require.Empty(t, f.holder())
	_, err := u.q.try(t.Context(), lockRequest)
	require.ErrorIs(t, err, errs.ErrHeld, "it overtakes a waiter")
	require.Empty(t, waiting)
	f.endMove()
	other.release(within(t, "the lock", waiting).mustHave(t))
	f.awaitNothingLeft(u, other)
}
