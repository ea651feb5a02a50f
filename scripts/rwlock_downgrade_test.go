// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestADowngradeLetsTheReadersInAndKeepsTheHold(t *testing.T) {
	t.Parallel()
	r := newRWLock(t)
	r.has(ours, writes)
	r.queues(holdOf("w"), writes)
	r.queues(nth("a", 5), reads)
	r.queues(theirs, reads)
	r.clock += second
	own, others := r.listens(we), r.listens(they)
	require.Equal(t, []any{int64(1), digits(r.clock), grantOf(nth("a", 5), r.clock, 2), int64(0)}, r.downgrades(ours))
	r.requireHave(reads, ours, nth("a", 5), theirs)
	require.Equal(t, noon+lease*1000, r.until()[ours])
	require.Empty(t, own.received(), "the reply tells it")
	require.Equal(t, []string{grantOf(theirs, r.clock+1, 3)}, others.received())
	require.Equal(t, []any{holdOf("w")}, r.inQueues())
	require.Equal(t, int64(0), r.tries(holdOf("d"), reads)[0], "no reader enters before the writer")
	for _, hold := range []string{ours, nth("a", 5), theirs} {
		r.leaves(hold)
	}
	r.requireHave(writes, holdOf("w"))
}

// P5, order: the second one is no end of a writer, so no reader enters past the writer that waits.
func TestADowngradeSentTwiceLetsNoOtherReaderIn(t *testing.T) {
	t.Parallel()
	r := newRWLock(t)
	r.has(ours, writes)
	r.downgrades(ours)
	r.queues(holdOf("w"), writes)
	r.queues(theirs, reads)
	unchanged := r.unchanged()
	require.Equal(t, []any{int64(1), digits(noon), "", int64(0)}, r.downgrades(ours))
	unchanged()
}

// P1: a hold that has ended is a writer's to its end: it may be anybody's by the next poll.
func TestAHoldThatHasEndedIsNotDowngraded(t *testing.T) {
	t.Parallel()
	r := newRWLock(t)
	r.has(ours, writes)
	r.queues(theirs, reads)
	r.clock += lease * 1000
	unchanged := r.unchanged()
	require.Equal(t, []any{int64(0), digits(r.clock)}, r.downgrades(ours))
	unchanged()
	r.polls(they, theirs)
	r.requireHave(reads, theirs)
	require.Equal(t, int64(0), r.downgrades(ours)[0])
}

// P6: more than a call lets in.
func TestADowngradeLetsManyReadersInOverSeveralCalls(t *testing.T) {
	t.Parallel()
	const n = 200
	r := newRWLock(t)
	r.has(ours, writes)
	r.queues(holdOf("w"), writes)
	r.many(n, r.readers)
	require.Equal(t, []any{int64(1), digits(noon), "", int64(1)}, r.downgrades(ours))
	require.Len(t, r.until(), 1+128)
	r.downgrades(ours) // sent again
	r.polls(session("w"), holdOf("w"))
	require.Len(t, r.until(), 1+n)
	require.Equal(t, []any{holdOf("w")}, r.inQueues())
}

// P1: what a reader asks for shares its hold inside its session.
func TestReadersShareWhileNoWriterWaits(t *testing.T) {
	t.Parallel()
	r := newRWLock(t)
	r.has(ours, reads)
	unchanged := r.unchanged()
	require.True(t, r.isOpen(ours))
	require.False(t, r.isOpen(theirs), "a session without a hold shares none")
	unchanged()
	r.queues(theirs, writes)
	unchanged = r.unchanged()
	require.False(t, r.isOpen(ours))
	unchanged()
	r.clock += life
	require.True(t, r.isOpen(ours), "it is dead")
	r.clock = noon + lease*1000
	require.False(t, r.isOpen(ours), "the hold has ended")
}

func TestNoReaderSharesWhileAWriterMayBeAlive(t *testing.T) {
	t.Parallel()
	r := newRWLock(t)
	r.has(ours, reads)
	r.dead(3000, writes, noon-second)
	require.False(t, r.isOpen(ours))
	require.False(t, r.isOpen(ours))
	require.True(t, r.isOpen(ours), "all were passed over")
	require.True(t, r.isOpen(ours))
}
