// SPDX-License-Identifier: Apache-2.0

package notify_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/notify"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// P4, P6: while waiters and listeners come and go, connections break and slots move, each remaining waiter is
// notified in the end. Then nothing remains.
func TestNoWaiterIsForgottenInTheTurmoil(t *testing.T) {
	t.Parallel()
	c := calm(t)
	d := newDispatcher(t, steady(t, c), io.Discard)
	const names, users, moves = 12, 8, 6
	targets := make([]notify.Target, names)
	for i := range targets {
		targets[i] = targetOf(t, fmt.Sprint(i))
		holdKey(t, c.Owner(t, c.Slot(t, targets[i].Key)), targets[i])
	}
	stop := make(chan struct{})
	var turmoil sync.WaitGroup
	for range users {
		turmoil.Go(func() {
			for {
				target := targets[rand.N(names)]
				w := d.Wait(target)
				w.FoundHeld(time.Hour)
				l := d.Listen(target.Channel, notify.ShardedChannel, newHandlerSpy())
				pause := time.NewTimer(rand.N(5 * time.Millisecond))
				select {
				case <-stop:
				case <-pause.C:
				case <-l.Subscribed():
				}
				pause.Stop()
				w.Close()
				l.Close()
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	for i := range moves {
		for _, node := range c.Servers()[:3] {
			node.MustDo(t, "CLIENT", "KILL", "TYPE", "pubsub")
		}
		slot := c.Slot(t, targets[i].Key)
		to := c.Servers()[i%3]
		if to == c.Owner(t, slot) {
			to = c.Servers()[(i+1)%3]
		}
		c.BeginMove(t, slot, to).Finish(t) // with all its keys
	}
	waits := make([]*notify.Wait, names)
	for i, target := range targets {
		waits[i] = d.Wait(target)
		waits[i].FoundHeld(time.Hour)
	}
	close(stop)
	turmoil.Wait()
	for i, target := range targets {
		owner := c.Owner(t, c.Slot(t, target.Key))
		redistest.Await(t, "the subscription", func() bool { return subscribedIn(t, owner, target) == 1 })
		redistest.Receive(t, "the confirmation", waits[i].C)
		locktest.IsClosed(waits[i].C) // by a confirmation before this one
		owner.MustDo(t, "SPUBLISH", target.Channel, "1")
		redistest.Receive(t, "the wake-up by a message", waits[i].C)
		waits[i].Close()
	}
	redistest.Await(t, "the end of the goroutines", func() bool { return d.Running() == 0 })
	require.Zero(t, d.Channels())
	for _, node := range c.Servers() {
		redistest.Await(t, "the end of the connections", func() bool { return subscribers(t, node) == 0 })
	}
}
