// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/dispatch"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/timers"
	runner "github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// noMonitor ignores all events.
type noMonitor struct{}

func (noMonitor) MessagesLost(error) {}
func (noMonitor) MessagesBack()      {}
func (noMonitor) ServersDiffer()     {}

// dispatcher returns a dispatcher with a wire of its own, and what closes both.
func (f *fixture) dispatcher() (*dispatch.Dispatcher, *wire, func()) {
	client, link := f.client(f.T)
	d, closeAll := dispatcherOf(client)
	return d, link, closeAll
}

// dispatcherOf returns a dispatcher of a client, and what closes both.
func dispatcherOf(client rueidis.Client) (*dispatch.Dispatcher, func()) {
	clock := timers.New()
	d := dispatch.New(client, runner.NewRunner(client), clock, noMonitor{}, false)
	return d, func() {
		d.Close()
		clock.Close()
		client.Close()
	}
}

func targetOf(name string) dispatch.Target {
	return dispatch.Target{
		Channel: locktest.Keys(name).Unlocked(), Key: locktest.Key(name),
		Poll: scripts.RedlockPoll, WaiterID: "0123456789012345678901",
	}
}

// subscribed returns how many connections subscribe to the channel of a target.
func (f *fixture) subscribed(target dispatch.Target) int {
	return f.redis.PubSubNumSub(target.Channel)[target.Channel]
}

// noHandler ignores messages.
type noHandler struct{}

func (noHandler) OnMessage(string) {}
func (noHandler) OnUnsubscribed()  {}
func (noHandler) OnSubscribed()    {}

// P4: a dispatcher that is closed while it asks a silent cluster for a node waits for no reply.
func TestClosedDispatcherDoesNotWaitForANode(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		client, link := f.clusterClient()
		d, closeAll := dispatcherOf(client)
		require.NoError(f, client.Do(f.Context(), client.B().Set().Key("a").Value("b").Build()).Error()) // it is connected
		link.goSilent()
		d.Listen("sb:a", dispatch.ShardedChannel, noHandler{})
		time.Sleep(100 * time.Millisecond)
		require.Zero(f, took(d.Close))
		link.heal()
		closeAll()
		time.Sleep(2 * time.Second) // a client of a cluster closes connections later
	})
}

// P4, P7: a channel stays subscribed for exactly Linger after its last waiter or listener has left, so that
// the next need not subscribe. Then neither the subscription nor its connection remains, and the next
// waiter subscribes anew.
func TestSubscriptionLingersAndEnds(t *testing.T) {
	t.Parallel()
	a, b := targetOf("a"), targetOf("b")
	for name, use := range map[string]func(d *dispatch.Dispatcher, target dispatch.Target) (live bool){ //nolint:paralleltest // as above
		"Waiter": func(d *dispatch.Dispatcher, target dispatch.Target) bool {
			w := d.Wait(target)
			defer w.Close()
			<-w.C
			return d.IsSubscribed(target.Channel)
		},
		"Listener": func(d *dispatch.Dispatcher, target dispatch.Target) bool {
			l := d.Listen(target.Channel, dispatch.ShardedChannel, noHandler{})
			defer l.Close()
			<-l.Subscribed()
			return d.IsSubscribed(target.Channel)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(f *fixture) {
				d, _, closeAll := f.dispatcher()
				defer closeAll()
				connections := f.redis.CurrentConnectionCount()
				require.True(f, use(d, a))
				require.True(f, use(d, b))
				requested := f.commands.Load()
				for range 10 {
					time.Sleep(dispatch.Linger - time.Nanosecond)
					require.True(f, use(d, a))
				}
				// The other channel has ended meanwhile, with the connection that had both.
				require.Equal(f, requested+3, f.commands.Load(), "a connection, and its SUBSCRIBE")
				require.Equal(f, 1, d.Channels())
				require.Equal(f, 1, f.subscribed(a))
				require.Zero(f, f.subscribed(b))

				time.Sleep(dispatch.Linger + 10*time.Millisecond)
				synctest.Wait()
				require.Zero(f, d.Channels())
				require.Zero(f, f.subscribed(a))
				require.Equal(f, connections, f.redis.CurrentConnectionCount())

				require.True(f, use(d, a))
				require.Equal(f, 1, f.subscribed(a))
			})
		})
	}
}
