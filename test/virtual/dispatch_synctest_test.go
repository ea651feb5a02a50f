// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/countdown"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/notify"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/timers"
	runner "github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/reentrant"
)

// noMonitor ignores all events.
type noMonitor struct{}

func (noMonitor) MessagesLost(error) {}
func (noMonitor) MessagesBack()      {}
func (noMonitor) ServersDiffer()     {}

// dispatcherOf returns a dispatcher of a client, and what closes both.
func dispatcherOf(client rueidis.Client) (*notify.Dispatcher, func()) {
	clock := timers.New()
	d := notify.NewDispatcher(client, runner.NewRunner(client), clock, noMonitor{}, false)
	return d, func() {
		d.Close()
		clock.Close()
		client.Close()
	}
}

// noHandler ignores messages.
type noHandler struct{}

func (noHandler) OnMessage(string) {}
func (noHandler) OnUnsubscribed()  {}
func (noHandler) OnSubscribed()    {}

// P4: a dispatcher that is closed while it asks a silent cluster for a node waits for no reply.
func TestClosedDispatcherDoesNotWaitForANode(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		client, link := f.clusterClient()
		d, closeAll := dispatcherOf(client)
		require.NoError(f, client.Do(f.Context(), client.B().Set().Key("a").Value("b").Build()).Error()) // it is connected
		link.goSilent()
		d.Listen("sb:a", notify.ShardedChannel, noHandler{})
		time.Sleep(100 * time.Millisecond)
		require.Zero(f, took(d.Close))
		link.heal()
		closeAll()
		time.Sleep(2 * time.Second) // a client of a cluster closes connections later
	})
}

// locksOf returns how to make one lock of each kind that hands over by messages.
func locksOf(name string) map[string]func(*signalbox.Session) locktest.Lock {
	return map[string]func(*signalbox.Session) locktest.Lock{
		"fair":      func(s *signalbox.Session) locktest.Lock { return fair.New(s, name) },
		"reentrant": func(s *signalbox.Session) locktest.Lock { return reentrant.New(s, name) },
	}
}

// refusesSubscriptions lets the fixture refuse every SUBSCRIBE from now on.
func (f *fixture) refusesSubscriptions() {
	f.redis.Server().SetPreHook(func(c *server.Peer, command string, _ ...string) bool {
		if command != "SUBSCRIBE" {
			return false
		}
		c.WriteError("NOPERM this user has no permissions to run the 'subscribe' command")
		return true
	})
}

// P6: a waiter that loses its subscription, and gets no other, polls ten times a second from then
// on: it does not wait for the poll that was planned while messages came.
func TestLostSubscriptionBringsPollsForward(t *testing.T) {
	t.Parallel()
	const latency = time.Millisecond
	for name, lock := range locksOf("lost") { //nolint:paralleltest // as above
		t.Run(name, func(t *testing.T) {
			for _, after := range []time.Duration{10 * time.Millisecond, 120 * time.Millisecond, 3 * time.Second} {
				bubbleOfUsers(t, func(f *fixture) {
					users := f.queueUsers(2, latency)
					lease := atOnce(f.T, lock(users[0].Session))
					next := queuedAndListening(f.Context(), lock(users[1].Session))
					time.Sleep(600 * time.Millisecond) // a second after the first poll was planned, and one was sent
					f.refusesSubscriptions()
					users[1].breakSubscriptions()
					time.Sleep(after)
					released := time.Now()
					require.NoError(f, lease.Unlock())
					got := <-next
					require.NoError(f, got.err)
					require.Less(f, got.at.Sub(released), 115*time.Millisecond, "released after %v", after)
					require.NoError(f, got.lease.Unlock())
				})
			}
		})
	}
}

// clusterClient returns a client that takes the embedded server for what it says it is: a cluster.
func (f *fixture) clusterClient() (rueidis.Client, *wire) {
	c, link := f.client(f.T, func(o *rueidis.ClientOption) {
		o.InitAddress, o.ForceSingleClient = []string{"embedded:6379"}, false
	})
	require.Equal(f, rueidis.ClientModeCluster, c.Mode())
	return c, link
}

// clusterUsers returns n sessions at a cluster, which has no sharded channels.
func (f *fixture) clusterUsers(n int, latency time.Duration) (users []queueUser) {
	f.ends = append(f.ends, func() { time.Sleep(2 * time.Second) }) // a client of a cluster closes connections later
	for range n {
		c, link := f.clusterClient()
		link.latency.Store(int64(latency))
		s := signalbox.NewSession(c)
		users = append(users, queueUser{s, link})
		f.ends = append(f.ends, func() {
			_ = s.Close(locktest.Ended()) // says that leases were left, which the test knows
			c.Close()
		})
	}
	return users
}

// P6: a hand-off takes one script and one message at a cluster without sharded channels, whichever
// session was first.
func TestClusterWithoutShardsHandsOverByMessage(t *testing.T) {
	t.Parallel()
	const latency = 5 * time.Millisecond
	for name, lock := range locksOf("unsharded") { //nolint:paralleltest // as above
		t.Run(name, func(t *testing.T) {
			bubbleOfUsers(t, func(f *fixture) {
				users := f.clusterUsers(2, latency)
				require.NoError(f, atOnce(f.T, lock(users[0].Session)).Unlock()) // teaches the server the scripts
				for n := range 6 {
					holder, waiter := users[n%2], users[(n+1)%2]
					lease := atOnce(f.T, lock(holder.Session))
					next := queuedAndListening(f.Context(), lock(waiter.Session))
					released := time.Now()
					require.NoError(f, lease.Unlock())
					got := <-next
					require.NoError(f, got.err)
					require.LessOrEqual(f, got.at.Sub(released), 4*latency, "by message")
					require.NoError(f, got.lease.Unlock())
				}
			})
		})
	}
}

// P6: a session that only waits for a round, and one that only counts down, share the same
// channel.
func TestLatchWithoutShardsOpensByMessage(t *testing.T) {
	t.Parallel()
	const latency = 5 * time.Millisecond
	bubbleOfUsers(t, func(f *fixture) {
		users := f.clusterUsers(3, latency)
		_, err := countdown.New(users[0].Session, "unsharded").Start(f.Context(), 1)
		require.NoError(f, err)
		opened := make(chan time.Time, 1)
		go func() {
			same, err := countdown.New(users[1].Session, "unsharded").Round(f.Context())
			require.NoError(f, err)
			require.NoError(f, same.Wait(f.Context()))
			opened <- time.Now()
		}()
		time.Sleep(500 * time.Millisecond)
		counts, err := countdown.New(users[2].Session, "unsharded").Round(f.Context())
		require.NoError(f, err)
		_, err = counts.CountDown(f.Context(), "the only one")
		require.NoError(f, err)
		require.WithinDuration(f, time.Now(), <-opened, latency, "by message")
	})
}
