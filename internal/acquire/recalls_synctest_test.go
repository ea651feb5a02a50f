// SPDX-License-Identifier: Apache-2.0

package acquire

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// P6: a lock is not kept for a second after a recall in vain, for longer after each further one, for an hour at most, and as at first after quiet.
// No more than 1,024 locks are remembered.
func TestRecallsInVainKeepALockAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var w recalls
		awayFor := func() (away time.Duration) {
			for w.add("a"); !w.mayKeep("a"); away += time.Second {
				require.True(t, w.mayKeep("b"))
				time.Sleep(time.Second)
			}
			return away
		}
		require.True(t, w.mayKeep("a"))
		last := awayFor()
		require.Equal(t, minAway, last)
		for last < maxAway {
			away := awayFor()
			require.Equal(t, min(2*last, maxAway), away)
			last = away
		}
		w.add("a")
		time.Sleep(maxAway / 2)
		w.add("a") // in vain, but not because it was kept
		time.Sleep(maxAway / 2)
		require.True(t, w.mayKeep("a"))
		time.Sleep(time.Second)
		require.Equal(t, minAway, awayFor())
		for i := range 3 * maxRecalls {
			w.add(strconv.Itoa(i))
		}
		require.Len(t, w.byKey, maxRecalls)
	})
}
