// SPDX-License-Identifier: Apache-2.0

package shardgroups_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// greatest returns how many shards and members a great group has: 10,000 and 100 if SIGNALBOX_SOAK is set.
func greatest() (count, members int) {
	if os.Getenv("SIGNALBOX_SOAK") != "" {
		return 10_000, 100
	}
	return redistest.Rounds(300, 1000), redistest.Rounds(10, 20)
}

// A rolling restart, a tenth of the members at a time, moves each shard once if each new member joins before its predecessor leaves.
func TestARollingRestartMovesEachShardOnce(t *testing.T) {
	t.Parallel()
	count, members := greatest()
	w := evenWorld(t, count, members)
	w.counted()
	old := w.alive()
	for len(old) > 0 {
		for range members / 10 {
			w.add(defaults(count)).polls()
		}
		w.runs(second, second)
		for _, m := range old[:members/10] {
			m.leave()
		}
		old = old[members/10:]
		w.runs(10*second, second)
	}
	w.requireEven()
	moves, most := w.counted()
	t.Logf("%d shards, %d members, %d at a time: %d moves, no shard more than %d times", count, members, members/10, moves, most)
	require.Equal(t, count, moves)
	require.Equal(t, 1, most)
}
