// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// P1: the hold is compared with its label, as a whole.
func TestALeaveGrantsTheLockAndNotifiesEachSessionOnce(t *testing.T) {
	t.Parallel()
	r := newRWLock(t)
	r.has(holdOf("z"), writes)
	r.clock++
	r.queues(ours, reads)
	r.clock++
	r.queues(theirs, reads)
	r.queues(nth("b", 7), reads)
	r.queues(holdOf("w"), writes)
	r.clock += second
	published, both, notPublished := r.listens(we), r.listens(they), r.listens(session("w"))
	require.Equal(t, []any{int64(1), digits(r.clock), "", int64(0)}, r.leaves(holdOf("z")))
	require.Equal(t, map[string]int64{ours: noon + 1 + life, theirs: noon + 2 + life, nth("b", 7): noon + 2 + life}, r.until(), "the rests of their lives")
	r.requireLife(lease*time.Millisecond + keeps)
	require.Equal(t, []string{grantOf(ours, r.clock, 1)}, published.received())
	require.Equal(t, []string{grantOf(theirs, r.clock+1, 3) + grantOf(nth("b", 7), r.clock+2, 3)}, both.received())
	require.Empty(t, notPublished.received())

	r.leaves(ours)
	r.leaves(theirs)
	require.Empty(t, notPublished.received(), "not before the last reader")
	r.leaves(nth("b", 7))
	require.Equal(t, []string{grantOf(holdOf("w"), r.clock+3, 4)}, notPublished.received())
	require.Empty(t, r.inQueues())
}

// Speed: a release costs the same, however many readers there are.
func TestAReleaseAmongManyReadersIsNoMoreCommands(t *testing.T) {
	t.Parallel()
	const n = 1024
	r := newRWLockAt(t)
	r.has(ours, reads)
	r.has(theirs, reads)
	alone := r.cost(func() { r.leaves(ours) })
	r.has(ours, reads)
	r.many(n, r.key)
	require.Len(t, r.until(), n+2)
	require.Equal(t, alone, r.cost(func() { r.leaves(ours) }))
	r.queues(holdOf("w"), writes)
	r.heartbeat(session("w"), longestLife, r.next())
	waited := r.cost(func() { r.leaves(theirs) })
	require.LessOrEqual(t, waited, alone+10, "a writer waits")
	for i := n; i > 1; i /= 2 {
		r.server.MustDo(t, "ZREMRANGEBYRANK", r.key, 3+i, -1) // before them stand the floor, the phase and the mark
		require.Equal(t, waited, r.cost(func() { r.leaves(manyHold(i)) }))
		require.Len(t, r.until(), i-1)
	}
	r.leaves(manyHold(1))
	r.requireHave(writes, holdOf("w"))
}

// The floor of a key that was lost is zeros, in whatever form the server returns a score of minus
// 0.
func TestLostFloorIsWrittenAsZeros(t *testing.T) {
	t.Parallel()
	r := newRWLock(t)
	r.has(theirs, writes)
	r.queues(ours, writes)
	r.queues(nth("a", 2), writes)
	r.server.MustDo(t, "DEL", r.key, r.heartbeats)
	r.server.MustDo(t, "HSET", r.heartbeats, we, digits(r.clock-second)+"000000000001abcdefgh"+label)
	r.leaves(ours)
	r.leaves(nth("a", 2))
	require.Equal(t, released(0), r.value())
}
