// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/dispatch"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// P7: polls of one session fall on common instants, each within a pause of the last one.
func TestPollsOfManyQueuesMeet(t *testing.T) {
	t.Parallel()
	ls := &Registry{phase: 123 * time.Millisecond, drift: 0.003}
	ls.mu.pendingQueues = 500
	q, instants := &Queue{registry: ls}, map[time.Duration]bool{}
	for n := range 1000 {
		now := time.Minute + time.Duration(n)*time.Millisecond
		next := q.nextPollLocked(now)
		require.LessOrEqual(t, next-now, dispatch.PollInterval*9/10)
		require.Greater(t, next-now, dispatch.PollInterval*4/5)
		instants[next] = true
	}
	require.LessOrEqual(t, len(instants), 11)
}

// P6: a heartbeat does only as long as everything is as the last poll saw it.
func TestHeartbeatReplacesPollsDuringALongHold(t *testing.T) {
	t.Parallel()
	now := clock.Now()
	hearing := &grantListener{}
	for name, c := range map[string]struct {
		change func(q *Queue)
		want   bool
	}{
		"Unchanged":   {func(*Queue) {}, true},
		"NeverPolled": {func(q *Queue) { q.seenStamp = 0 }, false},
		"HoldEnds":    {func(q *Queue) { q.holdEnds = now.Mono() }, false},
		"PolledLong":  {func(q *Queue) { q.polledAt = now.Mono() - pollAnywayAfter*dispatch.PollInterval }, false},
		"NoListener":  {func(q *Queue) { q.listener = nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := &Queue{registry: &Registry{}, listener: hearing, waitState: &waitState{seenStamp: 1, holdEnds: now.Mono() + time.Second, polledAt: now.Mono()}}
			c.change(q)
			require.Equal(t, c.want, q.isUnchangedLocked(now))
		})
	}
}

// P7: one call for as many locks as may be; they share a slot until it is known that scripts may span slots.
func TestHeartbeatsGoTogether(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	u := p.plain()
	var waits []queuePoll
	for i := range 2*maxHeartbeats + 1 {
		waits = append(waits, queuePoll{q: &Queue{registry: u.Registry, keys: &LockKeys{Slot: uint16(i % 2)}}, unchangedStamp: 1})
	}
	sizes := func() (sizes []int) {
		for _, group := range u.groupHeartbeats(waits) {
			sizes = append(sizes, len(group))
		}
		return sizes
	}
	require.Equal(t, []int{maxHeartbeats, 1, maxHeartbeats}, sizes())
	require.True(t, u.session.Runner.CertainlySpansSlots(p.Context()))
	require.Equal(t, []int{maxHeartbeats, maxHeartbeats, 1}, sizes())
	require.Empty(t, u.groupHeartbeats(nil))
}

// P6: a waiter whose ticket and message are lost, while heartbeats replace polls, has the lock when the
// holder releases it.
func TestWaiterBesideALongHoldFindsALostTicket(t *testing.T) {
	redistest.Slow(t, "a waiter sends a heartbeat a second")
	t.Parallel()
	p := newPlace(t)
	p.only(scripts.LockHeartbeat)
	holder, u := p.plain(), p.join(p.proxy, nil, steady)
	a := holder.takes()
	waiting := u.waiting(t.Context(), 1)
	u.hears()
	await(t, "a heartbeat", func() bool { return p.proxy.Replies() > 0 })
	p.server.MustDo(t, "DEL", u.q.keys.All[1])
	holder.gives(a)
	u.gives(within(t, "the lock", waiting).mustHave(t))
	p.nothingLeft(holder, u)
}

// P6: while the slot moves, the heartbeat of a waiter is refused, and its poll does.
func TestMovingSlot_Waiter_StaysAlive(t *testing.T) {
	redistest.Slow(t, "a waiter sends a heartbeat a second")
	t.Parallel()
	p := newPlace(t)
	u, other := p.mover(), p.mover()
	a := u.takes()
	waiting := other.waiting(t.Context(), 1)
	other.hears()
	await(t, "a poll", func() bool {
		other.mu.Lock()
		defer other.mu.Unlock()
		return other.q.seenStamp != 0
	})
	p.moves()
	said := func() any { return p.server.MustDo(t, "HGET", u.q.keys.All[2], other.session.ID()) }
	before := said()
	await(t, "a heartbeat", func() bool { return said() != before })
	p.arrives()
	u.gives(a)
	other.gives(within(t, "the lock", waiting).mustHave(t))
	p.nothingLeft(u, other)
}

// P2, P6: a poll that lengthens a hold of its own session does that with the holder key alone while the slot moves.
func TestMovingSlot_Poll_LengthensItsOwnHold(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	u := p.mover()
	next := u.q.Prepare(wish, new(QueuedRequest))
	a := next.attempt
	p.server.MustDo(t, "SET", u.q.keys.Holder, "sb1l"+wire.Stamp(1_780_000_000_000_000).Text()+a.ticket()+"q", "PX", 16_000)
	p.moves()
	u.mu.Lock()
	a.state, a.pollFirst = queued, true // its grant was made, and not heard
	u.q.pollLocked()
	u.mu.Unlock()
	require.NoError(t, next.Wait(t.Context()))
	ttl, _ := p.server.MustDo(t, "PTTL", u.q.keys.Holder).(int64)
	require.Greater(t, time.Duration(ttl)*time.Millisecond, 17*time.Second, "15 s, and what is left of a heartbeat")
	p.arrives()
	u.gives(next.Leave())
	p.nothingLeft(u)
}
