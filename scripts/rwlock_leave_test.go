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
	p := newRWLock(t)
	p.has(holdOf("z"), writes)
	p.clock++
	p.queues(ours, reads)
	p.clock++
	p.queues(theirs, reads)
	p.queues(nth("b", 7), reads)
	p.queues(holdOf("w"), writes)
	p.clock += second
	published, both, notPublished := p.listens(we), p.listens(they), p.listens(session("w"))
	require.Equal(t, []any{int64(1), digits(p.clock), "", int64(0)}, p.leaves(holdOf("z")))
	require.Equal(t, map[string]int64{ours: noon + 1 + life, theirs: noon + 2 + life, nth("b", 7): noon + 2 + life}, p.until(), "the rests of their lives")
	p.requireLife(lease*time.Millisecond + keeps)
	require.Equal(t, []string{grantOf(ours, p.clock, 1)}, published.received())
	require.Equal(t, []string{grantOf(theirs, p.clock+1, 3) + grantOf(nth("b", 7), p.clock+2, 3)}, both.received())
	require.Empty(t, notPublished.received())

	p.leaves(ours)
	p.leaves(theirs)
	require.Empty(t, notPublished.received(), "not before the last reader")
	p.leaves(nth("b", 7))
	require.Equal(t, []string{grantOf(holdOf("w"), p.clock+3, 4)}, notPublished.received())
	require.Empty(t, p.inQueues())
}

// Speed: a release costs the same, however many readers there are.
func TestAReleaseAmongManyReadersIsNoMoreCommands(t *testing.T) {
	t.Parallel()
	const n = 1024
	p := newRWLockAt(t)
	p.has(ours, reads)
	p.has(theirs, reads)
	alone := p.cost(func() { p.leaves(ours) })
	p.has(ours, reads)
	p.many(n, p.key)
	require.Len(t, p.until(), n+2)
	require.Equal(t, alone, p.cost(func() { p.leaves(ours) }))
	p.queues(holdOf("w"), writes)
	p.heartbeat(session("w"), longestLife, p.next())
	waited := p.cost(func() { p.leaves(theirs) })
	require.LessOrEqual(t, waited, alone+10, "a writer waits")
	for i := n; i > 1; i /= 2 {
		p.server.MustDo(t, "ZREMRANGEBYRANK", p.key, 3+i, -1) // before them stand the floor, the phase and the mark
		require.Equal(t, waited, p.cost(func() { p.leaves(manyHold(i)) }))
		require.Len(t, p.until(), i-1)
	}
	p.leaves(manyHold(1))
	p.requireHave(writes, holdOf("w"))
}

// The floor of a key that was lost is zeros, in whatever form the server returns a score of minus
// 0.
func TestLostFloorIsWrittenAsZeros(t *testing.T) {
	t.Parallel()
	p := newRWLock(t)
	p.has(theirs, writes)
	p.queues(ours, writes)
	p.queues(nth("a", 2), writes)
	p.server.MustDo(t, "DEL", p.key, p.heartbeats)
	p.server.MustDo(t, "HSET", p.heartbeats, we, digits(p.clock-second)+"000000000001abcdefgh"+label)
	p.leaves(ours)
	p.leaves(nth("a", 2))
	require.Equal(t, released(0), p.value())
}
