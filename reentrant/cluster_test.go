// SPDX-License-Identifier: Apache-2.0

package reentrant_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/names"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// P6: in a cluster a release is published on the sharded channel of the lock, where the waiter listens.
func TestInAClusterTheLocksNodePublishesARelease(t *testing.T) {
	t.Parallel()
	redistest.NeedNew(t, "a sharded channel")
	redistest.Slow(t, "the nodes of a cluster take seconds to know each other")
	c := redistest.StartCluster(t, redistest.WithFailoverAfter(time.Minute))
	holding, waiting := locktest.SteadySession(t, c), locktest.SteadySession(t, c)
	for i := range 6 {
		name := fmt.Sprint(i)
		set, err := names.Native(names.NamingOptions{Prefix: names.DefaultPrefix}, name)
		require.NoError(t, err)
		owner := c.Owner(t, c.Slot(t, set.Holder))
		lease := locktest.Must(t, reentrant.New(holding, name).Lock)
		waiter := locktest.LaterWith(t.Context(), reentrant.New(waiting, name).Lock)
		redistest.Await(t, "the waiter's subscription", func() bool {
			reply, _ := owner.MustDo(t, "PUBSUB", "SHARDNUMSUB", set.Grants()+waiting.ID()).([]any)
			return len(reply) == 2 && reply[1] == int64(1)
		})
		messages := listen(t, c, set.Grants()+waiting.ID())
		require.NoError(t, lease.Unlock())
		redistest.Receive(t, "the message", messages)
		second := locktest.MustHave(t, waiter)
		require.NoError(t, second.Unlock())
		require.Zero(t, owner.CommandStats()["publish"].Calls, "which every node would have to pass on")
	}
}

// listen returns what is published on a sharded channel from here on.
func listen(tb testing.TB, c *redistest.Cluster, channel string) <-chan string {
	tb.Helper()
	client := c.Client(tb, nil)
	listener, _ := client.Dedicate()
	tb.Cleanup(listener.Close)
	messages := make(chan string, 10)
	listener.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(m rueidis.PubSubMessage) { messages <- m.Message }})
	require.NoError(tb, listener.Do(tb.Context(), client.B().Ssubscribe().Channel(channel).Build()).Error())
	return messages
}
