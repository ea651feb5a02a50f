// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

func (q *queued) heartbeatKeys() []string { return q.all }

// heartbeatArgs are those of a lock/heartbeat that saw a hold with that stamp.
func (q *queued) heartbeatArgs(session string, seen int64) []any {
	return []any{session, life, q.next(), digits(seen)}
}

// waits reports whether a lock/heartbeat of a session that saw a hold with that stamp was its heartbeat.
func (q *queued) waits(session string, seen int64) bool {
	q.Helper()
	reply := q.mustRun(scripts.LockHeartbeat, q.heartbeatKeys(), q.heartbeatArgs(session, seen)...)
	require.Equal(q, digits(q.clock), reply[0])
	return reply[1] == int64(1)
}

// polled returns the stamp of the hold that a poll of ours sees, 0 for none.
func (q *queued) polled() int64 {
	q.Helper()
	stamp, _ := q.mustRun(q.poll, q.all, q.pollArgs(we, ours)...)[6].(string)
	if stamp == "" {
		return 0
	}
	return parseStamp(q, stamp)
}

// P6: as long as the same hold lasts, a session that waits says no more than that it is alive.
func TestWaitIsAHeartbeatBesideTheSameHold(t *testing.T) {
	t.Parallel()
	q := newLock(t)
	q.has(theirs)
	q.queues(ours)
	seen := q.polled()
	require.Equal(t, noon, seen)
	for range 3 {
		q.clock += 2 * second
		held, queue := q.held(), q.queue()
		require.True(t, q.waits(we, seen))
		require.Equal(t, heartbeatField(q.clock+life, q.heartbeatCount), q.replied(we))
		require.Equal(t, held, q.held())
		require.Equal(t, queue, q.queue())
	}
}

// P6: a poll is due if anything at the lock is not as the session saw it, and then nothing is written.
func TestWaitBesideAnythingElseAsksForAPoll(t *testing.T) {
	t.Parallel()
	for name, changes := range map[string]func(q *queued){
		"Released":          func(q *queued) { q.leaves(theirs) },
		"ReleasedAlone":     func(q *queued) { q.drops(theirs) },
		"NextHolder":        func(q *queued) { q.leaves(ours); q.queues(nth("c", 1)); q.leaves(theirs) },
		"KeyLost":           func(q *queued) { q.server.MustDo(q, "DEL", q.key) },
		"MarkLost":          func(q *queued) { q.server.MustDo(q, "SETRANGE", q.key, 62, "-") },
		"QueueLost":         func(q *queued) { q.server.MustDo(q, "DEL", q.tickets) },
		"HeartbeatsLost":    func(q *queued) { q.server.MustDo(q, "DEL", q.heartbeats) },
		"Dead":              func(q *queued) { q.clock += life },
		"OtherKind":         func(q *queued) { q.server.MustDo(q, "DEL", q.key); q.server.MustDo(q, "ZADD", q.key, 1, "sb1w") },
		"HeartbeatsForeign": func(q *queued) { q.server.MustDo(q, "SET", q.heartbeats, "text", "PX", 60_000) },
		"PassedOver":        func(q *queued) { q.server.MustDo(q, "HSET", q.heartbeats, "from", digits(q.clock+1)+ours) },
		"PassedReader":      func(q *queued) { q.server.MustDo(q, "HSET", q.heartbeats, "from2", digits(q.clock+1)+ours) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newLock(t)
			q.has(theirs)
			q.queues(ours)
			seen := q.polled()
			changes(q)
			unchanged := q.unchanged()
			require.False(t, q.waits(we, seen))
			unchanged()
		})
	}
}

// One call is for many locks, and each has a reply of its own.
func TestWaitIsForManyLocks(t *testing.T) {
	t.Parallel()
	a, b := newLock(t), newLock(t)
	for _, q := range []*queued{a, b} {
		q.has(theirs)
		q.queues(ours)
	}
	b.leaves(theirs)
	keys := append(append(a.heartbeatKeys(), b.heartbeatKeys()...), a.heartbeatKeys()...)
	reply := a.mustRun(scripts.LockHeartbeat, keys, we, life, heartbeatNumber(9), strings.Repeat(digits(noon), 3))
	require.Equal(t, []any{digits(noon), int64(1), int64(0), int64(1)}, reply)
}

// P6: a heartbeat that is executed late makes no life shorter.
func TestWaitShortensNoLife(t *testing.T) {
	t.Parallel()
	q := newLock(t)
	q.has(theirs)
	q.queues(ours)
	late := q.heartbeatArgs(we, q.polled())
	q.heartbeat(we, longestLife, q.next())
	said := q.replied(we)
	require.Equal(t, int64(1), q.mustRun(scripts.LockHeartbeat, q.heartbeatKeys(), late...)[1])
	require.Equal(t, said, q.replied(we))
}
