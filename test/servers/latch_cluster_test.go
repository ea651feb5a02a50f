// SPDX-License-Identifier: Apache-2.0

package servers_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/countdown"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// calm is how long a node must be silent before its replica takes over: longer than any machine is
// busy, since nothing here is about failovers.
const calm = time.Minute

// P6: a slot that is moved while workers count and others wait loses no count and no waiter.
func TestARoundContinuesWhileItsSlotIsMoved(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "a slot that moves between the nodes of a cluster")
	cluster := redistest.StartCluster(t, redistest.WithFailoverAfter(calm))
	const name, rounds, n = "{moved} latch", 4, 300
	sessions := []*signalbox.Session{locktest.Session(t, cluster), locktest.Session(t, cluster), locktest.Session(t, cluster)}
	slot := cluster.Slot(t, locktest.Keys(name).Latch())
	for i := range rounds {
		r, ctx := mustStartRound(t, countdown.New(sessions[i%3], name), n+1), long(t)
		var waiters, workers sync.WaitGroup
		for _, s := range sessions {
			waiters.Go(func() {
				if err := countdown.New(s, name).RoundOf(r.ID()).Wait(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		moving := make(chan struct{})
		for w, s := range sessions {
			workers.Go(func() {
				<-moving
				for id := range n {
					if _, err := countdown.New(s, name).RoundOf(r.ID()).CountDown(ctx, fmt.Sprint((id+100*w)%n)); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		to := elsewhere(t, cluster, slot)
		move := cluster.BeginMove(t, slot, to)
		close(moving)
		if i%2 == 0 {
			move.Keys(t, locktest.Keys(name).Latch())
		}
		move.Finish(t)
		workers.Wait()
		left, err := r.CountDown(ctx, "the last")
		require.NoError(t, err)
		require.Zero(t, left, "every id counts once")
		waiters.Wait()
	}
}

// elsewhere returns a primary that does not have the slot.
func elsewhere(t *testing.T, cluster *redistest.Cluster, slot int) *redistest.Server {
	t.Helper()
	owner := cluster.Owner(t, slot)
	for _, node := range cluster.Servers()[:3] {
		if node != owner {
			return node
		}
	}
	t.Fatal("one node has every slot")
	return nil
}
