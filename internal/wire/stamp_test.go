// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/wire"
)

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
