// SPDX-License-Identifier: Apache-2.0

package notify_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/notify"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// calm is a cluster in which nothing fails over by itself.
func calm(tb testing.TB) *redistest.Cluster {
	tb.Helper()
	redistest.Slow(tb, "the nodes of a cluster serve two seconds after their start")
	return redistest.StartCluster(tb, redistest.WithFailoverAfter(time.Minute))
}

// publishing returns a client as sessions have it, with a protocol.
func publishing(tb testing.TB, c *redistest.Cluster, protocol redistest.Protocol) rueidis.Client {
	tb.Helper()
	return c.Client(tb, func(o *rueidis.ClientOption) {
		signalbox.Tune(o)
		protocol.Set(o)
	})
}

// heldIn registers a waiter for a lock of a cluster that is held for an hour, and returns when its channel is
// subscribed to and the poll after the wake-up is scheduled. No poll can wake it: from here on only messages and
// confirmations do.
func heldIn(tb testing.TB, c *redistest.Cluster, d *notify.Dispatcher, name string) (*notify.Wait, notify.Target) {
	tb.Helper()
	target := targetOf(tb, name)
	holdKey(tb, c.Owner(tb, c.Slot(tb, target.Key)), target)
	w := subscribed(tb, d, target)
	w.FoundHeld(time.Hour)
	return w, target
}

// subscribers returns how many connections a node has that subscribe to something.
func subscribers(tb testing.TB, node *redistest.Server) int {
	tb.Helper()
	list, _ := node.MustDo(tb, "CLIENT", "LIST", "TYPE", "pubsub").(string)
	return strings.Count(list, "\n")
}

// subscribedIn returns how many connections of a node listen on the channel of a target.
func subscribedIn(tb testing.TB, node *redistest.Server, target notify.Target) int64 {
	tb.Helper()
	reply, _ := node.MustDo(tb, "PUBSUB", "SHARDNUMSUB", target.Channel).([]any)
	require.Len(tb, reply, 2)
	return reply[1].(int64)
}

// P6, P7: in a cluster the nodes' messages wake waiters of locks in many slots, over one connection for each
// primary. After the last waiter nothing remains.
func TestCluster_OneConnectionForEachNodeWithChannels(t *testing.T) {
	t.Parallel()
	c := calm(t)
	var targets []notify.Target
	for i := range 60 {
		target := targetOf(t, fmt.Sprint(i))
		holdKey(t, c.Owner(t, c.Slot(t, target.Key)), target)
		targets = append(targets, target)
	}
	for _, node := range c.Servers() { // nodes name the replicas once these have some data
		redistest.Await(t, "six nodes to be named", func() bool {
			reply, _ := node.MustDo(t, "CLUSTER", "SLOTS").([]any)
			return strings.Count(fmt.Sprint(reply), "127.0.0.1") == 6
		})
	}
	client := steady(t, c)
	require.Len(t, client.Nodes(), 6)
	d := newDispatcher(t, client, io.Discard)
	require.Equal(t, "SPUBLISH", d.PublishCommands(notify.ShardedChannel))
	waits := make(map[notify.Target]*notify.Wait)
	for _, target := range targets {
		waits[target] = d.Wait(target)
	}
	for _, w := range waits {
		redistest.Receive(t, "the confirmation", w.C)
		w.FoundHeld(time.Hour)
	}
	for i, node := range c.Servers() {
		connections := 1
		if i >= 3 {
			connections = 0
		}
		require.Equal(t, connections, subscribers(t, node), i)
	}
	awaitRunning(t, d, 3)
	for target, w := range waits {
		require.False(t, locktest.IsClosed(w.C))
		c.Owner(t, c.Slot(t, target.Key)).MustDo(t, "SPUBLISH", target.Channel, "1")
		redistest.Receive(t, "the wake-up by a message", w.C)
	}

	for _, w := range waits {
		w.Close()
	}
	redistest.Await(t, "the end of the goroutines", func() bool { return d.Running() == 0 })
	require.Zero(t, d.Channels())
	for _, node := range c.Servers() {
		redistest.Await(t, "the end of the connections", func() bool { return subscribers(t, node) == 0 })
	}
}

// P4, P6: channels that are dropped leave the others of their node alone.
func TestCluster_ChannelsEndAlone(t *testing.T) {
	t.Parallel()
	for _, protocol := range redistest.Protocols() {
		t.Run(protocol.Name, func(t *testing.T) {
			t.Parallel()
			c := calm(t)
			d := newDispatcher(t, publishing(t, c, protocol), io.Discard)
			stays, target := heldIn(t, c, d, "{a}stays")
			slot := c.Slot(t, target.Key)
			owner := c.Owner(t, slot)
			var gone []notify.Target
			for i := 0; len(gone) < 5; i++ { // other slots of the same node
				other := targetOf(t, fmt.Sprint(i))
				if s := c.Slot(t, other.Key); s != slot && c.Owner(t, s) == owner {
					gone = append(gone, other)
				}
			}
			for _, other := range gone {
				subscribed(t, d, other).Close()
				require.Equal(t, int64(1), subscribedIn(t, owner, other))
			}
			for _, other := range gone {
				redistest.Await(t, "the end of the subscription", func() bool { return subscribedIn(t, owner, other) == 0 })
			}
			redistest.Receive(t, "the confirmation on another connection", stays.C)
			require.Equal(t, int64(1), subscribedIn(t, owner, target))
			again := subscribed(t, d, gone[0])
			owner.MustDo(t, "SPUBLISH", gone[0].Channel, "1")
			redistest.Receive(t, "the wake-up by a message", again.C)
			owner.MustDo(t, "SPUBLISH", target.Channel, "1")
			redistest.Receive(t, "the wake-up by a message", stays.C)
		})
	}
}
