// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/reentrant"
)

// calm is how long a node may not be heard of before its replica takes over: no test here wants that.
const calm = 5 * time.Minute

// listenersOf returns how many clients listen to a channel, at all nodes, by the command that counts them.
func listenersOf(t *testing.T, cluster *redistest.Cluster, command, channel string) (n int64) {
	t.Helper()
	for _, node := range cluster.Servers() {
		reply, _ := node.MustDo(t, "PUBSUB", command, channel).([]any)
		require.Len(t, reply, 2)
		here, _ := reply[1].(int64)
		n += here
	}
	return n
}

// clusterModes are the modes of Java's channels in a cluster: what Go has to say for the same, and the command that counts who listens.
var clusterModes = map[string]struct {
	option  signalbox.LockOption
	command string
}{
	"auto": {signalbox.WithLayout(redisson.Layout()), "SHARDNUMSUB"},
	"off":  {signalbox.WithLayout(redisson.Layout(redisson.PlainChannels)), "NUMSUB"},
}

// P1, P6: in a cluster too every waiter is woken by every holder, as long as both sides publish to the same
// kind of channel.
func TestEveryWaiterIsWokenInACluster(t *testing.T) {
	t.Parallel()
	programOf(t, "redisson4")
	cluster := redistest.StartCluster(t, redistest.WithFailoverAfter(calm))
	for mode, c := range clusterModes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			eachRelease(t, func(t *testing.T, release string) {
				peer := newClusterPeer(t, release, cluster, mode)
				newSide := func() *goSide {
					return &goSide{
						session: locktest.Session(t, cluster, signalbox.WithDefaults(c.option, signalbox.WithRenewedLease(time.Hour))),
						leases:  make(map[string]signalbox.Lease),
					}
				}
				sides := map[string][2]side{
					"java": {javaSide{peer, "holder"}, javaSide{peer, "waiter"}},
					"go":   {newSide(), newSide()},
				}
				for holder := range sides {
					for waiter := range sides {
						from, to := sides[holder][0], sides[waiter][1]
						for round := range 5 {
							key := fmt.Sprintf("%s-%s-%s-%s-%d", mode, release, holder, waiter, round)
							took(t, from.take(key))
							taken := to.take(key)
							redistest.Await(t, "a waiter listens", func() bool {
								return listenersOf(t, cluster, c.command, "redisson_lock__channel:{"+key+"}") == 1
							})
							require.Empty(t, taken, "taken while it is held")
							from.release(t, key)
							took(t, taken)
							to.release(t, key)
						}
					}
				}
			})
		})
	}
}

// P1, P6: where some Java clients use sharded channels and others do not, a Go side that uses both wakes and is woken by either, and by the
// Go sides that use one.
func TestEveryWaiterIsWokenInAClusterOfBothWays(t *testing.T) {
	t.Parallel()
	programOf(t, "redisson4")
	cluster := redistest.StartCluster(t, redistest.WithFailoverAfter(calm))
	const byBus, bySlot = "by bus", "by slot"
	ways := map[string][]string{
		"java off": {byBus}, "java auto": {bySlot}, "go plain": {byBus}, "go sharded": {bySlot}, "go both": {byBus, bySlot},
	}
	eachRelease(t, func(t *testing.T, release string) {
		newJava := func(mode string) *peer {
			return newClusterPeer(t, release, cluster, mode)
		}
		newGo := func(options ...redisson.Option) *goSide {
			return &goSide{
				session: locktest.Session(t, cluster, signalbox.WithDefaults(signalbox.WithLayout(redisson.Layout(options...)), signalbox.WithRenewedLease(time.Hour))),
				leases:  make(map[string]signalbox.Lease),
			}
		}
		off, auto := newJava("off"), newJava("auto")
		sides := make(map[string][2]side)
		sides["java off"] = [2]side{javaSide{off, "holder"}, javaSide{off, "waiter"}}
		sides["java auto"] = [2]side{javaSide{auto, "holder"}, javaSide{auto, "waiter"}}
		for name, options := range map[string][]redisson.Option{
			"go plain":   {redisson.PlainChannels},
			"go sharded": {redisson.ShardedChannels},
			"go both":    {redisson.PlainChannels, redisson.ShardedChannels},
		} {
			sides[name] = [2]side{newGo(options...), newGo(options...)}
		}
		for holder, publishes := range ways {
			for waiter, receives := range ways {
				if holder != "go both" && waiter != "go both" {
					continue
				}
				from, to := sides[holder][0], sides[waiter][1]
				key := strings.ReplaceAll(release+"-"+holder+"-"+waiter, " ", "-")
				published := receiveIn(t, cluster, "redisson_lock__channel:{"+key+"}")
				took(t, from.take(key))
				taken := to.take(key)
				for _, way := range receives {
					command := map[string]string{byBus: "NUMSUB", bySlot: "SHARDNUMSUB"}[way]
					redistest.Await(t, "a waiter listens "+way, func() bool {
						return listenersOf(t, cluster, command, "redisson_lock__channel:{"+key+"}") == 2 // this test too
					})
				}
				require.Empty(t, taken, "taken while it is held")
				from.release(t, key)
				took(t, taken)
				for _, way := range publishes {
					require.Equal(t, "0", within(t, published[way]), "%s to %s, %s", holder, waiter, way)
				}
				to.release(t, key)
			}
		}
	})
}

// receiveIn returns what is published on a channel, by kind of channel.
func receiveIn(t *testing.T, cluster *redistest.Cluster, channel string) map[string]<-chan string {
	t.Helper()
	published := make(map[string]<-chan string)
	for way, subscribe := range map[string]func(rueidis.DedicatedClient) rueidis.Completed{
		"by bus":  func(c rueidis.DedicatedClient) rueidis.Completed { return c.B().Subscribe().Channel(channel).Build() },
		"by slot": func(c rueidis.DedicatedClient) rueidis.Completed { return c.B().Ssubscribe().Channel(channel).Build() },
	} {
		client, release := cluster.Client(t, nil).Dedicate()
		t.Cleanup(release)
		messages := make(chan string, 1024)
		client.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(m rueidis.PubSubMessage) { messages <- m.Message }})
		require.NoError(t, client.Do(context.Background(), subscribe(client)).Error())
		published[way] = messages
	}
	return published
}

// within returns what must come.
func within(t *testing.T, messages <-chan string) string {
	t.Helper()
	select {
	case message := <-messages:
		return message
	case <-locktest.Context(t).Done():
		require.FailNow(t, "no message")
	}
	return ""
}

// P9: what Redisson could not release in a cluster is no name there.
func TestANameThatRedissonSplitsIsRefusedInACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.WithFailoverAfter(calm))
	s := locktest.Session(t, cluster, signalbox.WithDefaults(signalbox.WithLayout(redisson.Layout())))
	for _, name := range splitNames() {
		require.ErrorIs(t, reentrant.New(s, name).Check(), signalbox.ErrBadName, name)
	}
	for _, name := range []string{"a", "{a}:b"} {
		lease, err := reentrant.New(s, name).Lock(context.Background())
		require.NoError(t, err, name)
		require.NoError(t, lease.Unlock())
	}
}

// splitNames are names whose braces are not a hash tag: their key and their channel are in two
// slots of a cluster.
func splitNames() []string { return []string{"a{b", "a{}b", "a}b", "{}", "}{"} }

// Java acquires a lock whose name is in two slots, since that needs one key, and then cannot
// release it.
func TestJavaCannotUnlockANameInTwoSlots(t *testing.T) {
	t.Parallel()
	programOf(t, "redisson4")
	cluster := redistest.StartCluster(t, redistest.WithFailoverAfter(calm))
	eachRelease(t, func(t *testing.T, release string) {
		p := newClusterPeer(t, release, cluster, "auto")
		for _, name := range splitNames() {
			name += release
			p.must(t, "a", "lock", name, time.Hour.Milliseconds())
			require.Contains(t, refused(t, p.send("a", "unlock", name)), "CROSSSLOT", name)
			owner := cluster.Owner(t, cluster.Slot(t, name))
			require.Equal(t, map[string]string{p.owner(t, "a"): "1"}, hash(t, owner, name))
		}
	})
}
