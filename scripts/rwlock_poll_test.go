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
	r := newRWLock(t)
	r.has(holdOf("z"), reads)
	r.many(n, r.key)
	r.queues(ours, writes)
	r.clock += 61 * second
	for _, left := range []int{n + 1 - 1000, n + 1 - 2000} {
		reply := r.polls(we, ours)
		require.Equal(t, []any{int64(1), int64(0), int64(1), ""}, reply[:4])
		require.Len(t, r.until(), left)
	}
	require.Equal(t, grantOf(ours, r.clock, 4), r.polls(we, ours)[3])
	r.requireHave(writes, ours)
}

// P9: a lock without a hold and without a live waiter is soon free for other kinds.
func TestAPollFreesAKeyWithoutAHold(t *testing.T) {
	t.Parallel()
	r := newRWLock(t)
	r.has(ours, writes)
	r.drops(ours)
	r.polls(they)
	require.Equal(t, released(noon), r.value())
	r.requireLife(floorLife)

	r.has(ours, writes)
	r.dead(3, reads, noon-second)
	r.drops(ours)
	r.polls(they)
	require.Equal(t, map[string]int64{"sb1w": -noon - 1, "phase": 1, "queue": 1}, r.scores(r.key))
	r.requireLife(keeps)
}
