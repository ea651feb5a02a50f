// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/scripts"
)

// rounds is how often a lock changes hands in a test of hand-offs.
const rounds = 10

// scheduled is the least time after which a waiter in Go tries again without a message.
const scheduled = 800 * time.Millisecond

// P1, P6: the waiter has the lock, or its permits, when the holder releases, and not before, on whichever side each of
// them is; and the message wakes it. A Java waiter does nothing else within the hour that the key lives. A Go waiter
// tries about once a second, so the test counts the hand-offs that come sooner, without a poll of it, and repeats until
// there are enough of them.
func TestEveryWaiterIsWokenByEveryHolder(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		for name, kind := range sharedKinds() {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				server := redistest.Start(t)
				proxy := redistest.NewProxy(t, server.Addr())
				proxy.SetMatch(locktest.RunsScript(scripts.Load("redisson/poll", 1), scripts.Load("redisson/rwlock-poll", 1)))
				p, other := newPeer(t, release, server), newPeer(t, release, server)
				from, to := kind.sides(t, p, "holder", server), kind.sides(t, other, "waiter", proxy) // in another process
				for holder := range from {
					for waiter := range to {
						if bothRead(holder, waiter) {
							continue
						}
						woken, late := 0, locktest.Context(t)
						for round := 0; round < rounds || woken <= rounds/2 && late.Err() == nil; round++ {
							key := nameOf(holder, waiter, round)
							kind.begins(t, p, key)
							took(t, from[holder].take(key))
							taken := to[waiter].take(key)
							redistest.Await(t, "a waiter listens", func() bool { return locktest.Listeners(t, server, kind.channelOf(key)) == 1 })
							polls := proxy.Requests()
							require.Empty(t, taken, "taken while it is held")
							from[holder].release(t, key)
							given := time.Now()
							tookByMessage(t, taken, func() { server.MustDo(t, "PUBLISH", kind.channelOf(key), kind.again) })
							if time.Since(given) < scheduled/2 && proxy.Requests() == polls {
								woken++
							}
							to[waiter].release(t, key)
							if kind.permits != "" {
								require.Equal(t, "3", p.must(t, "a", kind.permits+"-available", key))
								require.Equal(t, []any{key}, server.MustDo(t, "KEYS", "*"+key+"*"), "nothing else is left")
								server.MustDo(t, "DEL", key)
							}
						}
						require.Greater(t, woken, rounds/2, "%s to %s: woken by polls", holder, waiter)
					}
				}
				awaitNothing(t, server)
			})
		}
	})
}

// P1, P6: in a cluster a waiter is woken if the holder publishes by the kind of channel that it listens to. Java has one kind, by its
// mode; Go has one, or both, and then it wakes and is woken by all. The keys of the readers' holds are in the slot of the lock.
func TestEveryWaiterIsWokenInACluster(t *testing.T) {
	t.Parallel()
	programOf(t, "redisson4")
	cluster := redistest.StartCluster(t, redistest.WithFailoverAfter(calm))
	eachRelease(t, func(t *testing.T, release string) {
		peers := map[string]*peer{"off": newClusterPeer(t, release, cluster, "off"), "auto": newClusterPeer(t, release, cluster, "auto")}
		for name, kind := range sharedKinds() {
			t.Run(name, func(t *testing.T) {
				from, to := clusterSides(t, kind, peers, "holder", cluster), clusterSides(t, kind, peers, "waiter", cluster)
				pairs := 0
				for holder, of := range from {
					for waiter, by := range to {
						if bothRead(holder, waiter) || of.ways&by.ways == 0 {
							continue
						}
						pairs++
						key := nameOf(release, name, holder, waiter)
						if pairs%2 == 0 {
							key = "{" + key + "}:x"
						}
						kind.begins(t, peers["off"], key)
						took(t, of.take(key))
						taken := by.take(key)
						for way, command := range map[int]string{byBus: "NUMSUB", bySlot: "SHARDNUMSUB"} {
							redistest.Await(t, "a waiter listens", func() bool {
								return (listenersOf(t, cluster, command, kind.channelOf(key)) == 1) == (by.ways&way > 0)
							})
						}
						require.Empty(t, taken, "taken while it is held")
						of.release(t, key)
						tookByMessage(t, taken, func() {
							for _, node := range cluster.Servers() {
								_, _ = node.Do("SPUBLISH", kind.channelOf(key), kind.again) // the others have moved it
							}
							cluster.Servers()[0].MustDo(t, "PUBLISH", kind.channelOf(key), kind.again)
						})
						by.release(t, key)
					}
				}
			})
		}
		for _, node := range cluster.Servers() { // replicas among them, which have to hear of it
			redistest.Await(t, "no key of a hold is left", func() bool { return len(node.Keys("*"+release+"-*rwlock_timeout*")) == 0 })
		}
	})
}

// The kinds of channel in a cluster.
const (
	byBus = 1 << iota
	bySlot
)

// wayside is a side, and the kinds of channel that it uses.
type wayside struct {
	side

	ways int
}

// clusterSides returns the sides of a kind that there are in a cluster.
func clusterSides(t *testing.T, k sharedKind, peers map[string]*peer, thread string, cluster *redistest.Cluster) map[string]wayside {
	t.Helper()
	all := make(map[string]wayside)
	for mode, ways := range map[string]int{"off": byBus, "auto": bySlot} {
		for name, newSide := range k.java {
			all[mode+" "+name] = wayside{newSide(peers[mode], thread), ways}
		}
	}
	for name, kind := range k.gos {
		all["default "+name] = wayside{newGoSide(t, cluster, kind), bySlot}
		all["plain "+name] = wayside{newGoSide(t, cluster, kind, redisson.PlainChannels), byBus}
		all["both "+name] = wayside{newGoSide(t, cluster, kind, redisson.PlainChannels, redisson.ShardedChannels), byBus | bySlot}
	}
	return all
}
