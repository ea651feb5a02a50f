// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"testing"
	"time"

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

// P3: blocks of stamps that follow each other share no token, and a floor is behind none of its own.
func TestBlocksShareNoToken(t *testing.T) {
	t.Parallel()
	const noon wire.Stamp = 1_780_000_000_000_000 // a multiple of the longest block, and of a longer one
	last, lengths := uint64(0), map[wire.Stamp]bool{}
	for s := noon - 1024 + 1; s < noon+3*1024; {
		require.Greater(t, s.Token(), last)
		require.LessOrEqual(t, s.Token(), s.LastToken())
		end := s.BlockEnd()
		length := end - s + 1
		require.Zero(t, s%length)
		require.True(t, length == 1024 || s%(4*length) != 0, "%d would be longer", s)
		lengths[length] = true
		last = end.LastToken()
		require.Equal(t, end+1, wire.StampOf(last))
		s = end + 1
	}
	require.Len(t, lengths, 6, "each power of four up to the longest")
}

// P3: what an acquire reserves ends with the last token before the block that follows.
func TestReservedTokensEndBeforeTheNextBlock(t *testing.T) {
	t.Parallel()
	const stamp wire.Stamp = 1_780_000_000_000_001
	require.Equal(t, (stamp+wire.TokenBlock).Token()-1, stamp.ReservedEnd().LastToken())
}

// P3: a token is the server's time, in quarters of a microsecond since 2025-01-01.
func TestATokenIsTheServersTime(t *testing.T) {
	t.Parallel()
	since := noon - wire.Stamp(time.Date(2025, time.January, 1, 0, 0, 0, 0, time.UTC).UnixMicro())
	require.Equal(t, 4*uint64(since), noon.Token())
	require.Less(t, noon.Token(), uint64(1)<<53)
}

func TestPartOfAMillisecondCountsAsOne(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		time.Millisecond: "1", time.Millisecond + 1: "2", 2*time.Millisecond - 1: "2", time.Nanosecond: "1", 0: "0", 30 * time.Second: "30000", 24 * time.Hour: "86400000",
	} {
		require.Equal(t, want, wire.Milliseconds(d))
	}
}
