// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// P6: a poll removes a thousand holds that have ended, and the next poll continues.
func TestManyHoldsThatEndedAreTakenOutInShortCalls(t *testing.T) {
	t.Parallel()
	const n = 2500
	p := newRWLock(t)
	p.has(holdOf("z"), reads)
	p.many(n, p.key)
	p.queues(ours, writes)
	p.clock += 61 * second
	for _, left := range []int{n + 1 - 1000, n + 1 - 2000} {
		reply := p.polls(we, ours)
		require.Equal(t, []any{int64(1), int64(0), int64(1), ""}, reply[:4])
		require.Len(t, p.until(), left)
	}
	require.Equal(t, grantOf(ours, p.clock, 4), p.polls(we, ours)[3])
	p.requireHave(writes, ours)
}

// P9: a lock without a hold and without a live waiter is soon free for other kinds.
func TestAPollFreesAKeyWithoutAHold(t *testing.T) {
	t.Parallel()
	p := newRWLock(t)
	p.has(ours, writes)
	p.drops(ours)
	p.polls(they)
	require.Equal(t, released(noon), p.value())
	p.requireLife(floorLife)

	p.has(ours, writes)
	p.dead(3, reads, noon-second)
	p.drops(ours)
	p.polls(they)
	require.Equal(t, map[string]int64{"sb1w": -noon - 1, "phase": 1, "queue": 1}, p.scores(p.key))
	p.requireLife(keeps)
}
