// SPDX-License-Identifier: Apache-2.0

package quorum_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/quorum"
)

// P1, for all counts of up to fifteen servers; test/redlock asks more.
func TestAQuorumIsMoreThanHalf(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 15; n++ {
		require.Greater(t, 2*quorum.Size(n), n, "two quorums share a server")
		require.LessOrEqual(t, 2*(quorum.Size(n)-1), n, "and no smaller number will do")
		for yes := range n + 1 {
			for no := range n + 1 - yes {
				tally := quorum.Tally{N: n, Yes: yes, No: no}
				switch tally.Verdict() {
				case quorum.Carried:
					require.Greater(t, 2*yes, n, "%+v", tally)
				case quorum.Failed:
					require.LessOrEqual(t, 2*(n-no), n, "%+v", tally)
				case quorum.Open:
					require.Less(t, yes+no, n, "%+v: everybody has answered", tally)
				}
			}
		}
	}
}
