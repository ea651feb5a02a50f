// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/timers"
)

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
