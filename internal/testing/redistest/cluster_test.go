// SPDX-License-Identifier: Apache-2.0

//go:build unix

package redistest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

func TestReplicaReplacesAnAbsentOwner(t *testing.T) {
	redistest.Slow(t, "a replica takes over when its primary has been silent for a while")
	t.Parallel()
	for name, away := range map[string]struct{ goes, comes func(*redistest.Server) }{
		"killed": {(*redistest.Server).Kill, (*redistest.Server).Restart},
		"frozen": {(*redistest.Server).Freeze, (*redistest.Server).Thaw},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := redistest.StartCluster(t)
			slot := c.Slot(t, "k")
			old, replica := c.Owner(t, slot), c.Replica(t, slot)
			require.NotSame(t, old, replica)
			old.MustDo(t, "SET", "k", "v")
			old.AwaitCopied(t, replica)

			away.goes(old)
			require.Same(t, replica, c.AwaitFailover(t, slot, old))
			require.Equal(t, "v", replica.MustDo(t, "GET", "k"))
			runs(t, c.Client(t, nil), "{k}n")

			away.comes(old)
			c.AwaitReady(t)
			require.Same(t, replica, c.Owner(t, slot))
			require.Same(t, old, c.Replica(t, slot))
		})
	}
}

func TestSlotMovesStepByStep(t *testing.T) {
	redistest.Slow(t, "the nodes of a cluster serve two seconds after their start")
	t.Parallel()
	c := redistest.StartCluster(t, redistest.WithFailoverAfter(time.Minute))
	slot := c.Slot(t, "{a}1")
	require.Equal(t, slot, c.Slot(t, "{a}2"))
	from, to := c.Owner(t, slot), c.Servers()[0]
	if from == to {
		to = c.Servers()[1]
	}
	from.MustDo(t, "MSET", "{a}1", "x", "{a}2", "y")
	refused := func(with string, s *redistest.Server, args ...any) {
		t.Helper()
		_, err := s.Do(args...)
		require.ErrorContains(t, err, with)
	}

	move := c.BeginMove(t, slot, to)
	require.Same(t, from, move.From)
	require.Equal(t, "x", from.MustDo(t, "GET", "{a}1"))
	refused(fmt.Sprintf("ASK %d %s", slot, to.Addr()), from, "GET", "{a}3")
	refused("MOVED", to, "GET", "{a}3")

	move.Keys(t, "{a}1")
	refused("ASK", from, "GET", "{a}1")
	refused("TRYAGAIN", from, "MGET", "{a}1", "{a}2")
	require.Same(t, from, c.Owner(t, slot))

	move.Finish(t)
	require.Same(t, to, c.Owner(t, slot))
	require.Equal(t, []any{"x", "y"}, to.MustDo(t, "MGET", "{a}1", "{a}2"))
	refused(fmt.Sprintf("MOVED %d %s", slot, to.Addr()), from, "GET", "{a}1")

	c.MoveSlot(t, slot, from)
	require.Same(t, from, c.Owner(t, slot))
	require.Equal(t, "y", from.MustDo(t, "GET", "{a}2"))
}

func TestTimeBeforeAFailoverReachesTheServers(t *testing.T) {
	redistest.Slow(t, "the nodes of a cluster serve two seconds after their start")
	t.Parallel()
	after := redistest.WithFailoverAfter(77 * time.Second)
	for _, node := range redistest.StartCluster(t, after).Servers() {
		require.Equal(t, []any{"cluster-node-timeout", "77000"}, node.MustDo(t, "CONFIG", "GET", "cluster-node-timeout"))
	}
	for _, one := range redistest.StartSentinel(t, after).Sentinels() {
		require.Contains(t, one.MustDo(t, "SENTINEL", "MASTER", redistest.MasterSet), "77000")
	}
}
