// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/countdown"
)

// clusterClient returns a client that takes the embedded server for what it says it is: a cluster.
func (f *fixture) clusterClient() (rueidis.Client, *wire) {
	c, link := f.client(f.T, func(o *rueidis.ClientOption) {
		o.InitAddress, o.ForceSingleClient = []string{"embedded:6379"}, false
	})
	require.Equal(f, rueidis.ClientModeCluster, c.Mode())
	return c, link
}

// clusterUsers returns n sessions at a cluster, which has no sharded channels.
func (f *fixture) clusterUsers(n int, latency time.Duration) ([]queueUser, func()) {
	var users []queueUser
	var closes []func()
	for range n {
		c, link := f.clusterClient()
		link.latency.Store(int64(latency))
		s := signalbox.NewSession(c)
		users = append(users, queueUser{s, link})
		closes = append(closes, func() {
			ended, cancel := context.WithCancel(context.Background())
			cancel()
			_ = s.Close(ended) // says that leases were left, which the test knows
			c.Close()
		})
	}
	return users, func() {
		for _, closeOne := range closes {
			closeOne()
		}
		time.Sleep(2 * time.Second) // a client of a cluster closes connections later
	}
}

// P6: a hand-off takes one script and one message at a cluster without sharded channels, whichever
// session was first.
func TestClusterWithoutShardsHandsOverByMessage(t *testing.T) {
	t.Parallel()
	const latency = 5 * time.Millisecond
	for name, lock := range locksOf("unsharded") { //nolint:paralleltest // as above
		t.Run(name, func(t *testing.T) {
			bubble(t, func(f *fixture) {
				t := f.T
				users, closeAll := f.clusterUsers(2, latency)
				defer closeAll()
				require.NoError(t, atOnce(t, lock(users[0].Session)).Unlock()) // teaches the server the scripts
				for n := range 6 {
					holder, waiter := users[n%2], users[(n+1)%2]
					lease := atOnce(t, lock(holder.Session))
					next := queuedAndListening(t.Context(), lock(waiter.Session))
					released := time.Now()
					require.NoError(t, lease.Unlock())
					got := <-next
					require.NoError(t, got.err)
					require.LessOrEqual(t, got.at.Sub(released), 4*latency, "by message")
					require.NoError(t, got.lease.Unlock())
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
	bubble(t, func(f *fixture) {
		t := f.T
		users, closeAll := f.clusterUsers(3, latency)
		defer closeAll()
		_, err := countdown.New(users[0].Session, "unsharded").Start(t.Context(), 1)
		require.NoError(t, err)
		opened := make(chan time.Time, 1)
		go func() {
			same, err := countdown.New(users[1].Session, "unsharded").Round(t.Context())
			require.NoError(t, err)
			require.NoError(t, same.Wait(t.Context()))
			opened <- time.Now()
		}()
		time.Sleep(500 * time.Millisecond)
		counts, err := countdown.New(users[2].Session, "unsharded").Round(t.Context())
		require.NoError(t, err)
		_, err = counts.CountDown(t.Context(), "the only one")
		require.NoError(t, err)
		require.WithinDuration(t, time.Now(), <-opened, latency, "by message")
	})
}
