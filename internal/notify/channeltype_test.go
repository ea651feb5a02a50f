// SPDX-License-Identifier: Apache-2.0

package notify_test

import (
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/notify"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// P6: in a cluster a waiter receives what is published on its types of channels, a waiter with both receives each,
// and no other waiter does.
func TestWaiterReceivesOnItsChannelTypes(t *testing.T) {
	t.Parallel()
	c := calm(t)
	d := newDispatcher(t, steady(t, c), io.Discard)
	target := targetOf(t, "a")
	owner := c.Owner(t, c.Slot(t, target.Key))
	holdKey(t, owner, target)
	waits := make(map[notify.ChannelTypes]*notify.Wait)
	for _, types := range []notify.ChannelTypes{notify.BothChannels, notify.ShardedChannel, notify.PlainChannel} {
		other := target
		other.ChannelTypes = types
		waits[types] = d.Wait(other)
	}
	require.Equal(t, 2, d.Channels())
	redistest.Await(t, "both subscriptions", func() bool {
		plain := 0
		for _, node := range c.Servers() {
			plain += locktest.Listeners(t, node, target.Channel)
		}
		return plain == 1 && subscribedIn(t, owner, target) == 1
	})
	quiet := func() {
		redistest.Await(t, "the confirmations to be taken", func() bool { return d.IsSubscribed(target.Channel) })
		for types, w := range waits {
			other := target
			other.ChannelTypes = types
			redistest.Await(t, "the channels to be subscribed to", func() bool {
				again := d.WaitIfSubscribed(other)
				if again == nil {
					return false
				}
				again.Close()
				return true
			})
			locktest.IsClosed(w.C)
			w.FoundHeld(time.Hour)
		}
	}
	quiet()
	owner.MustDo(t, "SPUBLISH", target.Channel, "0")
	redistest.Receive(t, "a sharded message", waits[notify.BothChannels].C)
	quiet()
	c.Servers()[0].MustDo(t, "PUBLISH", target.Channel, "0")
	redistest.Receive(t, "a plain message", waits[notify.BothChannels].C)
	redistest.Receive(t, "a plain message", waits[notify.PlainChannel].C)

	for _, w := range waits {
		w.Close()
	}
	redistest.Await(t, "the end of the goroutines", func() bool { return d.Running() == 0 })
	require.Zero(t, d.Channels())
}

// Outside a cluster there is one channel.
func TestNoCluster_EverythingUsesPublish(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	d := newDispatcher(t, steady(t, server), io.Discard)
	target := targetOf(t, "a")
	for _, types := range []notify.ChannelTypes{notify.ShardedChannel, notify.PlainChannel, notify.BothChannels} {
		require.Equal(t, "PUBLISH", d.PublishCommands(types))
		target.ChannelTypes = types
		defer subscribed(t, d, target).Close()
	}
	require.Equal(t, 1, d.Channels())
	require.Equal(t, 1, locktest.Listeners(t, server, target.Channel))
}
