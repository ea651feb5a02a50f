// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// most is of how many servers every course of a vote is tried.
const most = 11

// P1: more than half of the servers carry a vote, and it has failed if so many can no longer say yes. In every order of the replies
// the verdict never changes, is reported once, and exists when all servers have replied.
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
				require.Equal(t, count.yes > n/2, decided == carried, "%+v", count)
				require.Equal(t, count.no >= n-n/2, decided == failed, "%+v", count)
			}
			require.Equal(t, 1, reported, "%+v", count)
			require.NotEqual(t, open, decided, "%+v", count)
		}
	}
}
