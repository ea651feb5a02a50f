// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// clusterClient is a client of a cluster, as far as a runner asks it without a call.
type clusterClient struct{ rueidis.Client }

func (clusterClient) Mode() rueidis.ClientMode { return rueidis.ClientModeCluster }

func TestServerTimeIsKnownFromTheLastReply(t *testing.T) {
	t.Parallel()
	var c wire.ServerClock
	require.False(t, c.Known())
	now := timers.At(time.Hour, time.Now())
	c.Observe(1, noon, now)
	require.True(t, c.Known())
	require.Equal(t, noon+3_000_000, c.NotAfter(1, now, 3*time.Second))
	later := timers.At(time.Hour+time.Minute, time.Now().Add(-time.Hour)) // the wall clock was set back
	require.Equal(t, noon+60_000_000, c.NotAfter(1, later, 0))
	c.Observe(2, noon-5_000_000, later)
	require.Equal(t, noon-5_000_000, c.NotAfter(1, later, 0), "the last answer wins, also one that is behind")
}

// P4: in a cluster a slot uses the clock of its own node, whatever the replies of others contain meanwhile.
func TestCluster_EverySlotHasAClock(t *testing.T) {
	t.Parallel()
	c := wire.NewServerClock(wire.NewRunner(clusterClient{}))
	require.False(t, c.Known())
	const ahead = 60_000_000
	now := timers.At(time.Hour, time.Now())
	c.Observe(1, noon, now)
	require.Equal(t, noon, c.NotAfter(2, now, 0), "a guess, as long as there is nothing better")
	for range 3 {
		c.Observe(2, noon+ahead, now)
		require.Equal(t, noon, c.NotAfter(1, now, 0))
		require.Equal(t, noon+ahead, c.NotAfter(2, now, 0))
		c.Observe(1, noon, now)
		require.Equal(t, noon+ahead, c.NotAfter(2, now, 0))
	}
	c.Observe(2, noon, now)
	require.Equal(t, noon, c.NotAfter(2, now, 0), "the slot has moved, or the clock was set")
	c.Observe(1<<14-1, noon+1, now)
	require.Equal(t, noon+1, c.NotAfter(1<<14-1, now, 0))
}

// P4: several shards behind one endpoint have clocks of their own, which are kept apart once one reply shows that.
func TestShardsHaveClocksOfTheirOwn(t *testing.T) {
	t.Parallel()
	var c wire.ServerClock
	const ahead = 60_000_000
	now := timers.At(time.Hour, time.Now())
	c.Observe(1, noon, now)
	c.Observe(2, noon+1_000, now) // a reply that was on its way for a millisecond less
	require.Equal(t, noon+1_000, c.NotAfter(1, now, 0), "one clock")
	c.Observe(3, noon+ahead, now)
	for range 3 {
		c.Observe(1, noon, now)
		require.Equal(t, noon, c.NotAfter(1, now, 0))
		require.Equal(t, noon+ahead, c.NotAfter(3, now, 0))
		c.Observe(3, noon+ahead, now)
		require.Equal(t, noon, c.NotAfter(1, now, 0))
		require.Equal(t, noon+ahead, c.NotAfter(4, now, 0), "a guess")
	}
}
