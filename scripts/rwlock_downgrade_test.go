// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestADowngradeLetsTheReadersInAndKeepsTheHold(t *testing.T) {
	t.Parallel()
	p := newRWLock(t)
	p.has(ours, writes)
	p.queues(holdOf("w"), writes)
	p.queues(nth("a", 5), reads)
	p.queues(theirs, reads)
	p.clock += second
	own, others := p.listens(we), p.listens(they)
	require.Equal(t, []any{int64(1), digits(p.clock), grantOf(nth("a", 5), p.clock, 2), int64(0)}, p.downgrades(ours))
	p.requireHave(reads, ours, nth("a", 5), theirs)
	require.Equal(t, noon+lease*1000, p.until()[ours])
	require.Empty(t, own.received(), "the reply tells it")
	require.Equal(t, []string{grantOf(theirs, p.clock+1, 3)}, others.received())
	require.Equal(t, []any{holdOf("w")}, p.inQueues())
	require.Equal(t, int64(0), p.tries(holdOf("d"), reads)[0], "the writer's door is closed")
	for _, hold := range []string{ours, nth("a", 5), theirs} {
		p.leaves(hold)
	}
	p.requireHave(writes, holdOf("w"))
}

// P5, order: the second one is no end of a writer, so no reader enters past the writer that waits.
func TestADowngradeSentTwiceLetsNoOtherReaderIn(t *testing.T) {
	t.Parallel()
	p := newRWLock(t)
	p.has(ours, writes)
	p.downgrades(ours)
	p.queues(holdOf("w"), writes)
	p.queues(theirs, reads)
	unchanged := p.unchanged()
	require.Equal(t, []any{int64(1), digits(noon), "", int64(0)}, p.downgrades(ours))
	unchanged()
}

// P1: a hold that has ended is a writer's to its end: it may be anybody's by the next poll.
func TestAHoldThatHasEndedIsNotDowngraded(t *testing.T) {
	t.Parallel()
	p := newRWLock(t)
	p.has(ours, writes)
	p.queues(theirs, reads)
	p.clock += lease * 1000
	unchanged := p.unchanged()
	require.Equal(t, []any{int64(0), digits(p.clock)}, p.downgrades(ours))
	unchanged()
	p.polls(they, theirs)
	p.requireHave(reads, theirs)
	require.Equal(t, int64(0), p.downgrades(ours)[0])
}

// P6: more than a call lets in.
func TestADowngradeLetsManyReadersInOverSeveralCalls(t *testing.T) {
	t.Parallel()
	const n = 200
	p := newRWLock(t)
	p.has(ours, writes)
	p.queues(holdOf("w"), writes)
	p.many(n, p.readers)
	require.Equal(t, []any{int64(1), digits(noon), "", int64(1)}, p.downgrades(ours))
	require.Len(t, p.until(), 1+128)
	p.downgrades(ours) // sent again
	p.polls(session("w"), holdOf("w"))
	require.Len(t, p.until(), 1+n)
	require.Equal(t, []any{holdOf("w")}, p.inQueues())
}

// P1: what a reader asks for shares its hold inside its session.
func TestReadersShareWhileNoWriterWaits(t *testing.T) {
	t.Parallel()
	p := newRWLock(t)
	p.has(ours, reads)
	unchanged := p.unchanged()
	require.True(t, p.isOpen(ours))
	require.False(t, p.isOpen(theirs), "who has no hold shares none")
	unchanged()
	p.queues(theirs, writes)
	unchanged = p.unchanged()
	require.False(t, p.isOpen(ours))
	unchanged()
	p.clock += life
	require.True(t, p.isOpen(ours), "it is dead")
	p.clock = noon + lease*1000
	require.False(t, p.isOpen(ours), "the hold has ended")
}

func TestNoReaderSharesWhileAWriterMayBeAlive(t *testing.T) {
	t.Parallel()
	p := newRWLock(t)
	p.has(ours, reads)
	p.dead(3000, writes, noon-second)
	require.False(t, p.isOpen(ours))
	require.False(t, p.isOpen(ours))
	require.True(t, p.isOpen(ours), "all were passed over")
	require.True(t, p.isOpen(ours))
}
