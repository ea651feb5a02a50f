// SPDX-License-Identifier: Apache-2.0

package notify_test

import (
	"context"
	"maps"
	"sync/atomic"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/notify"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// forgetful is a client of a cluster that does not know a node before it was sent there.
type forgetful struct {
	rueidis.Client

	unknown string // the address of the node that it does not know
	sent    atomic.Int32
}

func (f *forgetful) Nodes() map[string]rueidis.Client {
	nodes := f.Client.Nodes()
	if f.sent.Load() == 0 {
		nodes = maps.Clone(nodes)
		delete(nodes, f.unknown)
	}
	return nodes
}

func (f *forgetful) DoMulti(ctx context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	defer f.sent.Add(1)
	return f.Client.DoMulti(ctx, commands...)
}

// P6: if the node of a lock is new to the client, the client learns of it, even if it sends no poll.
func TestNodeUnknownToTheClientIsFound(t *testing.T) {
	t.Parallel()
	c := calm(t)
	a := targetOf(t, "a")
	owner := c.Owner(t, c.Slot(t, a.Key))
	client := &forgetful{Client: steady(t, c), unknown: owner.Addr()}
	var log syncLog
	d := newDispatcher(t, client, &log)
	s := newHandlerSpy()
	redistest.Receive(t, "the subscription", d.Listen(a.Channel, notify.ShardedChannel, s).Subscribed())
	require.Positive(t, client.sent.Load())
	owner.MustDo(t, "SPUBLISH", a.Channel, "1")
	s.receives(t, "1")
	require.Empty(t, log.String())
}

// switching is a client that talks to one server and then to another, as one that follows sentinels.
type switching struct {
	rueidis.Client

	at atomic.Pointer[rueidis.Client]
}

func (s *switching) Dedicate() (rueidis.DedicatedClient, func()) { return (*s.at.Load()).Dedicate() }

func (s *switching) Nodes() map[string]rueidis.Client { return (*s.at.Load()).Nodes() }

// P6: if the client changes to another server the subscriptions follow, although the old server lives: what
// the new one publishes does not reach it.
func TestSubscriptionsFollowTheClient(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "a client is asked once a second which server it talks to, and each server is a real one")
	old, next := redistest.Start(t), redistest.Start(t)
	before, after := steady(t, old), steady(t, next)
	client := &switching{Client: before}
	client.at.Store(&before)
	var log syncLog
	d := newDispatcher(t, client, &log)
	a := targetOf(t, "a")
	w := subscribed(t, d, a)
	client.at.Store(&after)
	redistest.Receive(t, "the confirmation by the other server", w.C)
	require.Equal(t, 1, locktest.Listeners(t, next, a.Channel))
	awaitRunning(t, d, 1)
	redistest.Await(t, "the end of the old subscription", func() bool { return locktest.Listeners(t, old, a.Channel) == 0 })
	next.MustDo(t, "PUBLISH", a.Channel, "1")
	redistest.Receive(t, "the wake-up by a message", w.C)
	require.Empty(t, log.String())
}

// A command that was sent and has a reply must not be reused: a client may send it again when its connection
// breaks before all replies have come.
func TestSubscribeCommandIsNotReused(t *testing.T) {
	t.Parallel()
	client, release := steady(t, redistest.Start(t)).Dedicate()
	t.Cleanup(release)
	both := []rueidis.Completed{client.B().Subscribe().Channel("a").Build(), client.B().Subscribe().Channel("b").Build()}
	_, err := notify.SendCommands(t.Context(), client, both)
	require.NoError(t, err)
	for i, channel := range []string{"a", "b"} {
		require.Equal(t, []string{"SUBSCRIBE", channel}, both[i].Commands())
	}
}

// A connection that breaks between the replies is an error, whichever of them had come.
func TestSubscribeFailsIfItsConnectionBreaks(t *testing.T) {
	t.Parallel()
	proxy := redistest.NewProxy(t, redistest.Start(t).Addr())
	proxy.SetMatch(redistest.Commands("SUBSCRIBE"))
	for n := range 20 {
		armed := proxy.Arm(redistest.Fault{Kind: redistest.CutAfterReply})
		client, release := steady(t, proxy).Dedicate()
		_, err := notify.SendCommands(t.Context(), client, []rueidis.Completed{
			client.B().Subscribe().Channel("a").Build(), client.B().Subscribe().Channel("b").Build(),
		})
		require.Error(t, err, n)
		redistest.Receive(t, "the cut", armed.Fired())
		client.Close()
		release()
	}
}
