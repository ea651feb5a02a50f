// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/redisson"
)

// byWay are the commands that count who listens, and the modes of Java's channels: by bus, and by slot.
var byWay = map[string]string{"NUMSUB": "off", "SHARDNUMSUB": "on"}

// awaitAll waits until so many clients listen to a channel by each of the commands that count them.
func awaitAll(t *testing.T, cluster *redistest.Cluster, channel string, n map[string]int64) {
	t.Helper()
	for command := range n {
		redistest.Await(t, "waiters listen", func() bool { return listenersOf(t, cluster, command, channel) == n[command] })
	}
}

// P6: where some Java clients listen by the bus and others by slot, a release in Go reaches both, of a read-write lock and of permits too; and a
// release in either reaches Go.
func TestRWLockAndPermitsPublishToBothKindsOfChannel(t *testing.T) {
	t.Parallel()
	programOf(t, "redisson4")
	cluster := redistest.StartCluster(t, redistest.WithFailoverAfter(calm))
	eachRelease(t, func(t *testing.T, release string) {
		peers := make(map[string]*peer)
		for command, mode := range byWay {
			peers[command] = newClusterPeer(t, release, cluster, mode)
		}
		yardInBothWays(t, cluster, peers, release+"-yard")
		for _, kind := range permitKinds() {
			permitsInBothWays(t, cluster, peers, kind, release+"-"+kind.name)
		}
	})
}

// inBothWays makes locks that publish by both kinds of channel, ordinary and sharded.
func inBothWays() signalbox.LockOption {
	return signalbox.WithLayout(redisson.Layout(redisson.PlainChannels, redisson.ShardedChannels))
}

func yardInBothWays(t *testing.T, cluster *redistest.Cluster, peers map[string]*peer, name string) {
	t.Helper()
	g := goHalf{&goSide{
		session: locktest.Session(t, cluster, signalbox.WithDefaults(inBothWays(), signalbox.WithRenewedLease(time.Hour))),
		leases:  make(map[string]signalbox.Lease),
	}, writing}
	published := receiveIn(t, cluster, rwChannel(name))
	publish := func() {
		for _, node := range cluster.Servers() {
			_, _ = node.Do("SPUBLISH", rwChannel(name), "1") // the others have moved it
		}
		cluster.Servers()[0].MustDo(t, "PUBLISH", rwChannel(name), "1")
	}
	listen := map[string]int64{"NUMSUB": 2, "SHARDNUMSUB": 2} // this test, too
	took(t, g.take(name))
	var readers []<-chan error
	for _, p := range peers {
		readers = append(readers, javaHalf{p, "a", reading}.take(name))
	}
	awaitAll(t, cluster, rwChannel(name), listen)
	g.release(t, name)
	for way, messages := range published {
		require.Equal(t, "1", within(t, messages), way)
	}
	for _, r := range readers {
		tookByMessage(t, r, publish)
	}
	writer := g.take(name)
	awaitAll(t, cluster, rwChannel(name), listen)
	require.Empty(t, writer)
	for _, p := range peers {
		p.must(t, "a", "rw.unlock", name, reading)
	}
	took(t, writer)
	g.release(t, name)
}

func permitsInBothWays(t *testing.T, cluster *redistest.Cluster, peers map[string]*peer, kind permitKind, name string) {
	t.Helper()
	sem := newGoPermits(t, cluster, kind, inBothWays())
	for command, p := range peers {
		name := name + "-" + byWay[command]
		channel := "redisson_sc:{" + name + "}"
		waiter := javaPermits{p, "a", kind, map[string]string{}}
		took(t, sem.take(name, 3))
		taken := waiter.take(name, 3)
		awaitAll(t, cluster, channel, map[string]int64{command: 1})
		require.Empty(t, taken)
		sem.release(t, name)
		took(t, taken)
		again := sem.take(name, 3)
		awaitAll(t, cluster, channel, map[string]int64{"NUMSUB": 1, "SHARDNUMSUB": 1})
		require.Empty(t, again)
		waiter.release(t, name)
		took(t, again)
		sem.release(t, name)
	}
}
