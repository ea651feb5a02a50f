// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/timers"
)

// P7: each wait knows where its channels have it, whichever waits have left before, so that none is searched for.
func TestWaitsKnowTheirSlotsInAnyOrder(t *testing.T) {
	t.Parallel()
	const most = 1000
	d := &Dispatcher{timers: timers.New()}
	d.mu.closed = true // no channel lingers
	channels := [maxChannelsOfName]*channel{{d: d}, {d: d}}
	waits := make([]*Wait, most)
	for i := range waits {
		w := &Wait{}
		channels[0].addWaitLocked(w, 0)
		if i%3 == 0 {
			channels[1].addWaitLocked(w, 1)
		}
		waits[i] = w
	}
	for _, i := range rand.Perm(most) {
		for n, c := range waits[i].channels {
			if c != nil {
				c.removeWaitLocked(waits[i], n)
			}
		}
		waits[i] = nil
		left := 0
		for _, w := range waits {
			if w != nil {
				left++
				require.Same(t, w, channels[0].waits[w.slots[0]])
				require.True(t, w.channels[1] == nil || channels[1].waits[w.slots[1]] == w)
			}
		}
		require.Len(t, channels[0].waits, left)
	}
	require.Empty(t, channels[1].waits)
}
