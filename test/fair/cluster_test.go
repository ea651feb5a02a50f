// SPDX-License-Identifier: Apache-2.0

package fair_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// calm is how long a node must be silent before its replica takes over: longer than any machine is
// busy, since nothing here is about failovers.
const calm = time.Minute

// P1, P3, order: a slot that is moved from node to node while many use its lock keeps holders, queue and
// tokens.
func TestOrderIsKeptWhileTheSlotIsMoved(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "a slot moves between the nodes of a cluster, which clients learn of in seconds")
	left := 4
	newCluster(t).moves(t, func() bool { left--; return left >= 0 })
}

func TestSoakOrderIsKeptWhileTheSlotIsMoved(t *testing.T) { //nolint:paralleltest // has the machine to itself
	more := locktest.Soak(t)
	newCluster(t).moves(t, more)
}

// clusterLock is a cluster and one lock in it.
type clusterLock struct {
	cluster *redistest.Cluster
	notes   *holderLog
	slot    int
}

func newCluster(t *testing.T) *clusterLock {
	t.Helper()
	const name = "moved"
	c := redistest.StartCluster(t, redistest.WithFailoverAfter(calm))
	return &clusterLock{c, &holderLog{c.Client(t, locktest.Steady), name}, c.Slot(t, locktest.Key(name))}
}

// moves makes many goroutines use the lock while its slot is moved, in one step and in many, with the keys
// apart for a while.
func (c *clusterLock) moves(t *testing.T, more func() bool) {
	t.Helper()
	over, end := context.WithCancel(context.Background())
	const sessions, users = 4, 4
	var followed atomic.Int64 // how often the head of the queue was next
	done := make(chan struct{})
	go func() {
		defer close(done)
		all := make([]*signalbox.Session, sessions)
		for i := range all {
			all[i] = locktest.Session(t, c.cluster)
		}
		locktest.Together(t, sessions*users, func(i int) error {
			lock := fair.New(all[i%sessions], c.notes.name)
			for over.Err() == nil { // and the waiters in the queue by then have their turns
				n, err := c.notes.turn(context.Background(), lock)
				if err != nil {
					return err
				}
				for known := followed.Load(); n > known && !followed.CompareAndSwap(known, n); {
					known = followed.Load()
				}
			}
			return nil
		})
	}()
	defer func() { end(); <-done }()
	continues := func(what string) {
		before := followed.Load()
		begun := time.Now()
		redistest.AwaitFor(t, limit, what, func() bool { return followed.Load() >= before+200 })
		t.Logf("%s: 200 grants in %v", what, time.Since(begun).Round(time.Millisecond))
	}
	continues("in its old slot")
	rounds := 0
	for ; more(); rounds++ {
		to := c.elsewhere(t)
		if rounds%2 == 0 {
			c.cluster.MoveSlot(t, c.slot, to)
			continues("moved at once")
			continue
		}
		c.movesInSteps(t, to, rounds%4 == 1)
		continues("moved in steps")
	}
	end()
	<-done
	a := c.notes.inOrder(t, 200)
	t.Logf("%d moves: %+v", rounds, a)
	require.Zero(t, a.left, "places were lost")
	require.Zero(t, a.intruders, "the lock was lost")
}

// movesInSteps moves the slot so that the keys are on two nodes for longer than a life lasts without a
// heartbeat, and a lease without a renewal. The holder keeps its lease meanwhile. It releases the lock
// while the keys are apart, or later.
func (c *clusterLock) movesInSteps(t *testing.T, to *redistest.Server, early bool) { //nolint:revive // a case, no mode
	t.Helper()
	held, err := fair.New(locktest.Session(t, c.cluster), c.notes.name, signalbox.WithRenewedLease(2*life-time.Second)).Lock(locktest.Context(t))
	require.NoError(t, err)
	_, err = c.notes.note(t.Context(), held)
	require.NoError(t, err)
	m := c.cluster.BeginMove(t, c.slot, to)
	m.Keys(t, locktest.Keys(c.notes.name).QueueKey())
	until := time.Now().Add(2 * life)
	redistest.AwaitFor(t, limit, "longer than a life", func() bool { return time.Now().After(until) })
	require.NoError(t, held.Err(), "the lease was not renewed")
	if early {
		require.NoError(t, held.Unlock())
	}
	m.Keys(t, locktest.Keys(c.notes.name).HeartbeatsKey())
	m.Finish(t)
	if !early {
		require.NoError(t, held.Unlock())
	}
}

// elsewhere returns a primary that does not have the slot.
func (c *clusterLock) elsewhere(t *testing.T) *redistest.Server {
	t.Helper()
	owner := c.cluster.Owner(t, c.slot)
	for _, node := range c.cluster.Servers()[:3] {
		if node != owner {
			return node
		}
	}
	t.Fatal("one node has every slot")
	return nil
}
