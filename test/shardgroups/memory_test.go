// SPDX-License-Identifier: Apache-2.0

package shardgroups_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

// A server whose memory is full refuses joins. Polls renew and grant, and releases and leaves work.
func TestFullMemoryStopsJoinsAlone(t *testing.T) {
	t.Parallel()
	own := redistest.Start(t)
	pool := redistest.Pool(own)
	t.Cleanup(pool.Close)
	w := newWorld(newGroup(t), 12)
	w.server = pool
	for range 3 {
		w.add(defaults(12))
	}
	w.runs(40*second, second)
	w.requireEven()
	_, err := w.try(scripts.ShardsJoin, joinWords(1, w.clock)...)
	require.NoError(t, err) // the server knows the script
	w.runs(40*second, second)
	w.requireEven()
	w.moves = 0
	own.MustDo(t, "CONFIG", "SET", "maxmemory", "1")
	_, err = w.try(scripts.ShardsJoin, joinWords(2, w.clock)...)
	require.ErrorContains(t, err, "OOM")
	w.runs(60*second, second)
	require.Equal(t, []int{4, 4, 4}, w.loads())
	require.Zero(t, w.moves)
	w.members[0].goes()
	w.runs(5*second, second)
	require.Equal(t, []int{6, 6}, w.loads())
	own.MustDo(t, "CONFIG", "SET", "maxmemory", "0")
	w.add(defaults(12))
	w.runs(5*second, second)
	w.requireEven()
}

// joinWords are the arguments of a join of that number.
func joinWords(id int, clock int64) []any {
	return []any{fmt.Sprintf("%041d", id), digits(clock + second), lease, 1, 12, 12, 0, calm, 0, 0, "", "", "", "l", "12", ""}
}
