// SPDX-License-Identifier: Apache-2.0

package stamp_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/stamp"
)

// P3: blocks of stamps that follow each other share no token, and a floor is behind none of its own.
func TestBlocksShareNoToken(t *testing.T) {
	t.Parallel()
	const noon stamp.Stamp = 1_780_000_000_000_000 // a multiple of a block
	last := uint64(0)
	for s := noon - 3; s < noon+3*stamp.Block; {
		require.Greater(t, s.Token(), last)
		require.LessOrEqual(t, s.Token(), s.LastToken())
		end := s.BlockEnd()
		if s%stamp.Block == 0 {
			require.Equal(t, s+stamp.Block-1, end)
		} else {
			require.Equal(t, s, end)
		}
		last = end.LastToken()
		require.Equal(t, end+1, stamp.Floor(last))
		s = end + 1
	}
}
