// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

// ownersOf returns the fields of the holds in a read-write lock, in order.
func ownersOf(t *testing.T, server *redistest.Server, name string) []string {
	t.Helper()
	fields := hash(t, server, name)
	delete(fields, "mode")
	return slices.Sorted(maps.Keys(fields))
}

// P1: readers of both sides read together, and a writer of either waits for all of them. While they do, the server has what it has where all of
// them are Java's: the hash, and a key for each reader.
func TestAWriterWaitsForTheReadersOfBothSides(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p := newPeer(t, release, server)
		all, others := halvesOf(t, p, "a", server), halvesOf(t, p, "b", server)
		for _, writer := range []string{"java writer", "go writer"} {
			for _, last := range []string{"java reader", "go reader"} {
				t.Run(writer+" behind "+last, func(t *testing.T) {
					first := map[string]string{"java reader": "go reader", "go reader": "java reader"}[last]
					took(t, all[first].take("x"))
					took(t, all[last].take("x"))
					took(t, others["go reader"].take("x"))
					owners := ownersOf(t, server, "x")
					require.Len(t, owners, 3)
					require.Equal(t, map[string]string{"mode": "read", owners[0]: "1", owners[1]: "1", owners[2]: "1"}, hash(t, server, "x"))
					requireKeys(t, server, "x", timeoutOf("x", owners[0], "1"), timeoutOf("x", owners[1], "1"), timeoutOf("x", owners[2], "1"))
					taken := all[writer].take("x")
					redistest.Await(t, "a waiter listens", func() bool { return listeners(t, server, rwChannel("x")) >= 1 })
					for _, reader := range []side{all[first], others["go reader"], all[last]} {
						require.Empty(t, taken, "beside a reader")
						reader.release(t, "x")
					}
					took(t, taken)
					owners = ownersOf(t, server, "x")
					require.Len(t, owners, 1)
					require.True(t, strings.HasSuffix(owners[0], ":write"))
					requireKeys(t, server, "x")
					all[writer].release(t, "x")
					awaitNothing(t, server)
				})
			}
		}
	})
}

// P1, P6: the waiter has the lock when the holder releases it, and not before; and the message wakes it, as
// in TestEveryWaiterIsWokenByEveryHolder.
func TestEveryReadWriteWaiterIsWokenByEveryHolder(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		proxy := redistest.NewProxy(t, server.Addr())
		proxy.SetMatch(locktest.RunsScript(scripts.Load("redisson/poll", 1), scripts.Load("redisson/rwlock-poll", 1)))
		p, other := newPeer(t, release, server), newPeer(t, release, server)
		from, to := halvesOf(t, p, "holder", server), halvesOf(t, other, "waiter", proxy)
		for holder := range from {
			for waiter := range to {
				if strings.HasSuffix(holder, "reader") && strings.HasSuffix(waiter, "reader") {
					continue // they do not wait
				}
				const rounds = 10
				woken, late := 0, locktest.Context(t)
				for round := 0; round < rounds || woken <= rounds/2 && late.Err() == nil; round++ {
					name := strings.ReplaceAll(fmt.Sprintf("%s-%s-%d", holder, waiter, round), " ", "-")
					took(t, from[holder].take(name))
					taken := to[waiter].take(name)
					redistest.Await(t, "a waiter listens", func() bool { return listeners(t, server, rwChannel(name)) == 1 })
					polls := proxy.Requests()
					require.Empty(t, taken, "taken while it is held")
					from[holder].release(t, name)
					if tookByMessage(t, taken, notifiesRW(t, server, name)) && proxy.Requests() == polls {
						woken++
					}
					to[waiter].release(t, name)
				}
				t.Logf("%s to %s: %d by the message", holder, waiter, woken)
				require.Greater(t, woken, rounds/2, "%s to %s: woken by polls", holder, waiter)
			}
		}
		awaitNothing(t, server)
	})
}

// P1, P6: the same in a cluster, where the keys of the readers' holds are in the slot of the lock.
func TestAReadWriteLockIsSharedInACluster(t *testing.T) {
	t.Parallel()
	programOf(t, "redisson4")
	cluster := redistest.StartCluster(t, redistest.WithFailoverAfter(calm))
	eachRelease(t, func(t *testing.T, release string) {
		p := newClusterPeer(t, release, cluster, "auto")
		from, to := halvesOf(t, p, "holder", cluster), halvesOf(t, p, "waiter", cluster)
		for holder := range from {
			for waiter := range to {
				if strings.HasSuffix(holder, "reader") && strings.HasSuffix(waiter, "reader") {
					continue // they do not wait
				}
				for _, form := range []string{"%s-%s-%s", "{%s}:%s-%s"} {
					name := strings.ReplaceAll(fmt.Sprintf(form, release, holder, waiter), " ", "-")
					channel := rwChannel(name)
					if strings.HasPrefix(name, "{") {
						channel = "redisson_rwlock:" + name
					}
					took(t, from[holder].take(name))
					taken := to[waiter].take(name)
					redistest.Await(t, "a waiter listens", func() bool { return listenersOf(t, cluster, "SHARDNUMSUB", channel) == 1 })
					require.Empty(t, taken, "taken while it is held")
					from[holder].release(t, name)
					tookByMessage(t, taken, func() {
						for _, node := range cluster.Servers() {
							_, _ = node.Do("SPUBLISH", channel, "1") // the others have moved it
						}
					})
					to[waiter].release(t, name)
				}
			}
		}
		for _, node := range cluster.Servers() { // replicas among them, which have to hear of it
			redistest.Await(t, "no key of a hold is left", func() bool { return len(node.Keys("*"+release+"-*rwlock_timeout*")) == 0 })
		}
	})
}
