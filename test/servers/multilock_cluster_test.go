// SPDX-License-Identifier: Apache-2.0

package servers_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/multilock"
	"github.com/signalbox-go/signalbox/reentrant"
)

// clusterNames is a cluster, and a name in each of its three parts, in the order of slots.
type clusterNames struct {
	*redistest.Cluster

	names [3]string
	slots [3]int
}

func newTown(t *testing.T, options ...redistest.Option) *clusterNames {
	t.Helper()
	c := &clusterNames{Cluster: redistest.StartCluster(t, options...)}
	for found, i := 0, 0; found < len(c.names); i++ {
		name := fmt.Sprint("n", i)
		slot := c.Slot(t, locktest.Key(name))
		if part := min(slot/(redistest.Slots/3), 2); c.names[part] == "" {
			c.names[part], c.slots[part] = name, slot
			found++
		}
	}
	return c
}

func (c *clusterNames) members(s *signalbox.Session) []multilock.Member {
	return []multilock.Member{reentrant.New(s, c.names[2]), fair.New(s, c.names[1]), reentrant.New(s, c.names[0])}
}

// P1, P4: the same if the replica takes over: the call gets all members.
func TestAShardThatFailsOverBetweenTwoMembers(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "a replica takes over")
	c := newTown(t)
	// The members that are held outlast the failover, however long that takes.
	s, other := locktest.Session(t, c, signalbox.WithDefaults(signalbox.WithFirstLease(limit))), locktest.Session(t, c)
	dead := c.Owner(t, c.slots[2])
	warm, err := multilock.New(c.members(s)...).Lock(long(t))
	require.NoError(t, err)
	require.NoError(t, warm.Unlock())
	theirs, err := fair.New(other, c.names[1]).Lock(long(t))
	require.NoError(t, err)
	ctx, got := long(t), make(chan signalbox.Lease, 1)
	go func() {
		lease, err := multilock.New(c.members(s)...).Lock(ctx)
		if err != nil {
			t.Error(err)
		}
		got <- lease
	}()
	redistest.Await(t, "the first member", func() bool { return locked(t, reentrant.New(other, c.names[0])) })
	dead.Kill()
	if err := theirs.Unlock(); err != nil { // a cluster that misses a node refuses it, and it is released later
		require.ErrorIs(t, err, signalbox.ErrUnconfirmed)
	}
	lease := <-got
	require.NoError(t, lease.Err())
	c.AwaitFailover(t, c.slots[2], dead) // every node knows
	require.NoError(t, lease.Unlock())
	c.free(t, 0, 1, 2)
}

func locked(t *testing.T, l *reentrant.Lock) bool {
	t.Helper()
	is, err := l.IsLocked(long(t))
	require.NoError(t, err)
	return is
}

// free waits until the members of these parts are free, for less than a lease: by then they end by themselves.
func (c *clusterNames) free(t *testing.T, parts ...int) {
	t.Helper()
	s := locktest.Session(t, c)
	for _, i := range parts {
		redistest.Await(t, "a free lock", func() bool {
			is, err := reentrant.New(s, c.names[i]).IsLocked(long(t))
			return err == nil && !is
		})
	}
}
