// SPDX-License-Identifier: Apache-2.0

package rwlock_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// P1, P3: a slot is moved from node to node, both at once and with its keys apart for longer than a life,
// while readers and writers use its lock. Holders and tokens stay right, and every caller is served.
func TestAllUsersContinueWhileTheSlotIsMoved(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "the slot's keys are apart for longer than a waiter without a heartbeat counts as alive")
	const name, sessions = "moved", 6
	// Nothing here is about failovers: a node may be silent for longer than any machine is busy.
	c := redistest.StartCluster(t, redistest.WithFailoverAfter(time.Minute))
	notes, slot := &holderLog{c.Client(t, locktest.Steady), name}, c.Slot(t, locktest.Key(name))
	over, end := context.WithCancel(context.Background())
	var served [2]atomic.Int64 // readers, writers
	all := make([]*signalbox.Session, sessions)
	for i := range all {
		all[i] = locktest.Session(t, c)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		locktest.Together(t, sessions, func(i int) error {
			u := lockUser{all[i], "", "r"}
			if i%3 == 0 {
				u.mode = "w"
			}
			for over.Err() == nil {
				if _, err := notes.turn(context.Background(), u, sideOf(u.mode).New(all[i], name)); err != nil {
					return err
				}
				served[map[string]int{"r": 0, "w": 1}[u.mode]].Add(1)
			}
			return nil
		})
	}()
	defer func() { end(); <-done }()
	continues := func(what string) {
		reads, writes := served[0].Load(), served[1].Load()
		redistest.AwaitFor(t, limit, what, func() bool { return served[0].Load() >= reads+50 && served[1].Load() >= writes+50 })
	}
	elsewhere := func() *redistest.Server {
		for _, node := range c.Servers()[:3] {
			if node != c.Owner(t, slot) {
				return node
			}
		}
		t.Fatal("one node has every slot")
		return nil
	}
	continues("in its old slot")
	c.MoveSlot(t, slot, elsewhere())
	continues("moved at once")

	keys := locktest.Keys(name)
	m := c.BeginMove(t, slot, elsewhere())
	m.Keys(t, keys.Writers())
	until := time.Now().Add(5 * time.Second)
	redistest.AwaitFor(t, limit, "longer than a life", func() bool { return time.Now().After(until) })
	m.Keys(t, keys.RWHeartbeats(), keys.Readers(), notes.keys()[1], notes.keys()[2])
	m.Finish(t)
	continues("moved in steps")
	end()
	<-done
	a := notes.mustBeTrue(t)
	require.Zero(t, a.intruders, "the lock was lost")
}
