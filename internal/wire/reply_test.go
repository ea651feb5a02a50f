// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/wire"
)

const noon wire.Stamp = 1_780_000_000_000_000

func TestReplyIsReadByIndex(t *testing.T) {
	t.Parallel()
	reply := redistest.Outcome([]any{1, noon.Text(), "short", -7}).Reply
	require.Equal(t, 4, reply.Len())
	require.Equal(t, int64(1), reply.Int(0))
	require.Equal(t, noon, reply.Stamp(1))
	require.Equal(t, "short", reply.Text(2))
	require.Equal(t, int64(-7), reply.Int(3))
}

func TestMissingElementReadsAsZero(t *testing.T) {
	t.Parallel()
	for _, returned := range []any{[]any{}, []any{1, "text"}, 1, "text"} {
		reply := redistest.Outcome(returned).Reply
		require.Zero(t, reply.Int(9))
		require.Empty(t, reply.Text(9))
		require.Zero(t, reply.Stamp(9))
	}
	reply := redistest.Outcome([]any{1, "text"}).Reply
	require.Zero(t, reply.Int(1), "a text is no integer")
	require.Empty(t, reply.Text(0), "an integer is no text")
	require.Zero(t, reply.Stamp(1))
}

func TestBareReplyIsAnArrayOfOne(t *testing.T) {
	t.Parallel()
	reply := redistest.Outcome(noon.Text()).Reply
	require.Equal(t, 1, reply.Len())
	require.Equal(t, noon, reply.Stamp(0))
	require.Zero(t, reply.Int(0))
}

func TestLoneStampStandsForDoneAndTwoStamps(t *testing.T) {
	t.Parallel()
	reply := redistest.Outcome(int64(noon)).Reply
	require.Equal(t, wire.Done, reply.Code())
	require.Equal(t, []wire.Stamp{noon, noon}, []wire.Stamp{reply.Stamp(1), reply.Stamp(2)})
	count := redistest.Outcome(1 << 30).Reply
	require.Equal(t, wire.Code(1<<30), count.Code(), "a count is no stamp")
	require.Zero(t, count.Stamp(1))
}
