// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

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

// lossCounter counts the calls of Lost.
type lossCounter struct {
	Handler

	times int
}

func (l *lossCounter) OnUnsubscribed() { l.times++ }

// P7: the work at the end of a connection grows with the number of channels, and not with its
// square: it holds a lock that every waiter needs.
func TestLostConnectionCostsMemoryByItsChannels(t *testing.T) { //nolint:paralleltest // measures allocations
	const channels = 10_000
	ticks := timers.New()
	defer ticks.Close()
	d := &Dispatcher{timers: ticks}
	d.mu.backOffs = make(map[string]*nodeBackOff)
	d.mu.closed = true // no goroutine assigns them anew
	l := &nodeConn{d: d, madeAt: time.Now(), channels: make(map[*channel]struct{})}
	counter := new(lossCounter)
	for range channels {
		c := &channel{d: d, state: subscribed, conn: l}
		c.listeners = []*Listener{{d: d, handler: counter}}
		l.channels[c] = struct{}{}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	l.ended(errBroken)
	runtime.ReadMemStats(&after)
	require.Equal(t, channels, counter.times)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(10<<20))
}
