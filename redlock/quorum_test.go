// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// P1, for all counts of up to fifteen servers.
func TestAQuorumIsMoreThanHalf(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 15; n++ {
		require.Greater(t, 2*majority(n), n, "two quorums share a server")
		require.LessOrEqual(t, 2*(majority(n)-1), n, "and no smaller number will do")
		for yes := range n + 1 {
			for no := range n + 1 - yes {
				count := tally{n: n, yes: yes, no: no}
				switch count.verdict() {
				case carried:
					require.Greater(t, 2*yes, n, "%+v", count)
				case failed:
					require.LessOrEqual(t, 2*(n-no), n, "%+v", count)
				case open:
					require.Less(t, yes+no, n, "%+v: all servers have replied", count)
				}
			}
		}
	}
}

// most is of how many servers every course of a vote is tried.
const most = 11

// P1: two votes on the same servers, each of which has one vote, are never both carried.
func TestTwoVotesAreNeverBothCarried(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 2*most+1; n++ {
		for one := range n + 1 {
			for other := range n + 1 - one {
				first, second := tally{n: n}, tally{n: n}
				for server := range n {
					first.add(server < one)
					second.add(server >= n-other)
				}
				require.False(t, first.verdict() == carried && second.verdict() == carried, "%+v and %+v", first, second)
			}
		}
	}
}

// A verdict never changes, is reported once, and exists when all servers have replied: in every order of the
// replies.
func TestAVerdictIsFinal(t *testing.T) {
	t.Parallel()
	for n := 1; n <= most; n++ {
		for replies := range 1 << n {
			count := tally{n: n}
			decided, reported := open, 0
			for server := range n {
				if count.add(replies>>server&1 == 1) {
					reported++
				}
				if decided != open {
					require.Equal(t, decided, count.verdict(), "%+v", count)
				}
				decided = count.verdict()
			}
			require.Equal(t, 1, reported, "%+v", count)
			require.Equal(t, count.yes > n/2, decided == carried, "%+v", count)
			require.NotEqual(t, open, decided, "%+v", count)
		}
	}
}
