// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/countdown"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/redlock"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/semaphore"
)

// lateDialer connects to nothing before it is opened.
type lateDialer struct {
	opened atomic.Bool
	why    error
}

// dial is a session's DialCtxFn.
func (d *lateDialer) dial(ctx context.Context, addr string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
	if !d.opened.Load() {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: d.why}
	}
	return dialer.DialContext(ctx, "tcp", addr)
}

// lateSession returns a session of the topology that connects when d is opened.
func lateSession(t *testing.T, topology redistest.Topology, d *lateDialer) *signalbox.Session {
	t.Helper()
	var o rueidis.ClientOption
	topology.Client(t, func(given *rueidis.ClientOption) { o = *given })
	o.DialCtxFn = d.dial
	s, err := signalbox.DialWith(t.Context(), o, signalbox.WithLazyConnect())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close(context.Background())) })
	return s
}

// Locks that were made before the first connection work behind every topology, by its messages: a server, a primary of sentinels and
// a cluster that come 5 s late, and a host whose name resolves no sooner.
func TestLateServers_LocksMadeBeforeWork(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "servers that come 5 s late")
	for _, topology := range []redistest.Topology{redistest.Start(t), redistest.StartSentinel(t), redistest.StartCluster(t)} {
		for name, why := range map[string]error{
			"Refused": syscall.ECONNREFUSED,
			"Name":    &net.DNSError{Err: "no such host", Name: "redis.example", IsNotFound: true},
		} {
			t.Run(topology.Name()+name, func(t *testing.T) {
				t.Parallel()
				d := &lateDialer{why: why}
				holder, waiter := lateSession(t, topology, d), lateSession(t, topology, d)
				first, second := reentrant.New(holder, name), reentrant.New(waiter, name)
				permits, others := semaphore.New(holder, name, 1), semaphore.New(waiter, name, 1)
				require.Error(t, holder.Ping(t.Context()))
				opened := make(chan time.Time, 1)
				late := time.NewTimer(5 * time.Second)
				defer late.Stop()
				go func() {
					now := <-late.C
					d.opened.Store(true)
					opened <- now
				}()
				lease, err := first.Lock(t.Context())
				require.NoError(t, err)
				require.Less(t, time.Since(<-opened), 3*time.Second)
				require.NoError(t, waiter.Ping(t.Context()))
				permit, err := permits.Acquire(t.Context(), 1)
				require.NoError(t, err)

				granted := make(chan time.Time, 2)
				go func() {
					lease, err := second.Lock(context.Background())
					granted <- time.Now()
					if err == nil {
						err = lease.Unlock()
					}
					if err != nil {
						t.Error(err)
					}
				}()
				go func() {
					lease, err := others.Acquire(context.Background(), 1)
					granted <- time.Now()
					if err == nil {
						err = lease.Unlock()
					}
					if err != nil {
						t.Error(err)
					}
				}()
				redistest.Await(t, "the waiter listens for grants", func() bool { return listensForGrants(t, topology) })
				released := time.Now()
				require.NoError(t, lease.Unlock())
				require.NoError(t, permit.Unlock())
				for range 2 {
					require.Less(t, (<-granted).Sub(released), 300*time.Millisecond, "by a message, and not by a poll")
				}
			})
		}
	}
}

// listensForGrants reports whether a client is subscribed to grants at one of the servers.
func listensForGrants(t *testing.T, topology redistest.Topology) bool {
	t.Helper()
	for _, s := range topology.Servers() {
		for _, list := range []string{"CHANNELS", "SHARDCHANNELS"} {
			channels, _ := s.Do("PUBSUB", list, "*grants*") // an older server has no sharded ones
			if all, _ := channels.([]any); len(all) > 0 {
				return true
			}
		}
	}
	return false
}

// Some nodes of a cluster are away while the others serve: a session begins as one would that is older.
func TestLateCluster_BeginsWithTheNodesThatReply(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "a cluster")
	cluster := redistest.StartCluster(t, redistest.WithArgs("--cluster-require-full-coverage", "no", "--cluster-replica-no-failover", "yes"))
	down := cluster.Owner(t, cluster.Slot(t, "{hello}")) // what the first connection asks first
	var name string
	for i := 0; name == "" || cluster.Owner(t, cluster.Slot(t, "{"+name+"}")) == down; i++ {
		name = fmt.Sprint("n", i)
	}
	var o rueidis.ClientOption
	cluster.Client(t, func(given *rueidis.ClientOption) { o = *given })
	for _, takeAway := range []func(){down.Freeze, down.Kill} {
		takeAway()
		for _, options := range [][]signalbox.SessionOption{nil, {signalbox.WithLazyConnect()}} {
			s, err := signalbox.DialWith(t.Context(), o, options...)
			require.NoError(t, err)
			lease, err := reentrant.New(s, name).Lock(t.Context())
			require.NoError(t, err)
			require.NoError(t, lease.Unlock())
			require.NoError(t, s.Close(t.Context()))
		}
	}
}

// What a cluster cannot have is an error of the first call, and of Check after that.
func TestLateCluster_RefusesWhatNeedsOneServer(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "a cluster")
	cluster, server := redistest.StartCluster(t), redistest.Start(t)
	d := &lateDialer{why: syscall.ECONNREFUSED}
	java := signalbox.WithLayout(redisson.Layout())
	session := func() *signalbox.Session { return lateSession(t, cluster, d) }
	named, latched, tried, asked := session(), session(), session(), session()
	lock, latch := reentrant.New(named, "}{", java), countdown.New(latched, "{a}", java)
	try, ask := reentrant.New(tried, "}{", java), reentrant.New(asked, "}{", java)
	quorum := redlock.New([]*signalbox.Session{session(), session(), lateSession(t, server, d)}, "a")
	for _, check := range []interface{ Check() error }{lock, latch, try, ask, quorum} {
		require.NoError(t, check.Check())
	}
	waits := make(chan error, 3)
	go func() {
		_, err := lock.Lock(context.Background())
		waits <- err
	}()
	go func() {
		_, err := latch.Start(context.Background(), 1)
		waits <- err
	}()
	go func() {
		_, err := latch.RoundOf(1).CountDown(context.Background(), "id")
		waits <- err
	}()
	d.opened.Store(true)
	for range 3 {
		require.ErrorIs(t, <-waits, signalbox.ErrBadName)
	}
	for _, call := range []func() error{
		func() error { _, err := try.TryLock(t.Context()); return err },
		func() error { _, err := ask.Holder(t.Context()); return err },
	} {
		redistest.Await(t, "the first connection", func() bool {
			err := call()
			require.Error(t, err)
			return errors.Is(err, signalbox.ErrBadName)
		})
	}
	_, err := quorum.Lock(t.Context())
	require.ErrorIs(t, err, signalbox.ErrBadOption)
	for _, check := range []interface{ Check() error }{lock, latch, try, ask} {
		require.ErrorIs(t, check.Check(), signalbox.ErrBadName)
	}
	require.ErrorIs(t, quorum.Check(), signalbox.ErrBadOption)
}
