// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/countdown"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/multilock"
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/reentrant"
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
	eachPeer(t, func(t *testing.T, server *redistest.Server, p *peer) {
		kind := sharedKinds()["rwlock"]
		all, others := kind.sides(t, p, "a", server), kind.sides(t, p, "b", server)
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
					redistest.Await(t, "a waiter listens", func() bool { return locktest.Listeners(t, server, rwChannel("x")) >= 1 })
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

// latchChannel is the channel of a latch.
func latchChannel(name string) string { return "redisson_countdownlatch__channel__{" + name + "}" }

// waits returns the result of a wait for a round.
func waits(r countdown.Round) <-chan error {
	returned := make(chan error, 1)
	go func() { returned <- r.Wait(context.Background()) }()
	return returned
}

// P1, P6: a latch opens for both sides, and not before, whichever side starts it and whichever counts last.
func TestALatchThatEitherSideOpensWakesBoth(t *testing.T) {
	t.Parallel()
	eachPeer(t, func(t *testing.T, server *redistest.Server, p *peer) {
		s := newSession(t, server)
		for _, starter := range []string{"java", "go"} {
			for _, last := range []string{"java", "go"} {
				name := starter + "-" + last
				l := countdown.New(s, name)
				if starter == "java" {
					require.Equal(t, "true", p.must(t, "a", "latch-start", name, 4))
					_, err := l.Start(locktest.Context(t), 4)
					require.ErrorIs(t, err, signalbox.ErrRunning)
				} else {
					_, err := l.Start(locktest.Context(t), 4)
					require.NoError(t, err)
					require.Equal(t, "false", p.must(t, "a", "latch-start", name, 4))
				}
				r, err := l.Round(locktest.Context(t))
				require.NoError(t, err)
				waiting, reply := waits(r), p.send("waiter", "latch-wait", name, time.Hour.Milliseconds())
				redistest.Await(t, "both listen", func() bool { return locktest.Listeners(t, server, latchChannel(name)) == 2 })
				steps := map[string]func(){
					"java": func() { p.must(t, "a", "latch-down", name) },
					"go": func() {
						_, err := r.CountDown(locktest.Context(t), "x")
						require.NoError(t, err)
					},
				}
				for i, step := range []string{"java", "go", starter, last} {
					require.Equal(t, strconv.Itoa(4-i), p.must(t, "a", "latch-count", name))
					left, err := r.Count(locktest.Context(t))
					require.NoError(t, err)
					require.Equal(t, 4-i, left)
					require.Empty(t, waiting)
					require.Empty(t, reply)
					steps[step]()
				}
				took(t, waiting)
				require.Equal(t, "true", p.take(t, reply))
				require.Equal(t, "0", p.must(t, "a", "latch-count", name))
				require.NoError(t, r.Wait(locktest.Context(t)))
				_, err = r.CountDown(locktest.Context(t), "x")
				require.ErrorIs(t, err, signalbox.ErrRoundOver)
				p.must(t, "a", "latch-down", name)
				require.Equal(t, int64(0), server.MustDo(t, "DBSIZE"), "nothing is left")
			}
		}
	})
}

// P6: a RedissonMultiLock that names the locks in the order of Order, and a multilock of the same
// ones, acquire all of them in turns: Java gets its share while Go acquires them again and again,
// and Go gets its own.
func TestAMultiLockOfJavaInOurOrderMakesProgress(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		const times = 100
		server := redistest.Start(t)
		p, s := newPeer(t, release, server), newSession(t, server)
		all := multilock.New(reentrant.New(s, "a"), reentrant.New(s, "b"), reentrant.New(s, "c"))
		order := strings.Join(all.Order(), ",")
		require.Equal(t, "b,c,a", order)
		ctx, cancel := context.WithTimeout(context.Background(), 6*redistest.Patience)
		defer cancel()
		java := p.later(p.send("a", "other-work", "multi", order, times), isTrue)
		for n := 0; n < times || len(java) == 0; n++ {
			lease, err := all.Lock(ctx)
			require.NoError(t, err)
			require.NoError(t, lease.Unlock())
		}
		took(t, java)
		awaitNothing(t, server)
	})
}

// calm is how long a node may not be heard of before its replica takes over: no test here wants that.
const calm = 5 * time.Minute

// listenersOf returns how many clients listen to a channel, at all nodes, by the command that counts them.
func listenersOf(t *testing.T, cluster *redistest.Cluster, command, channel string) (n int64) {
	t.Helper()
	for _, node := range cluster.Servers() {
		reply, _ := node.MustDo(t, "PUBSUB", command, channel).([]any)
		require.Len(t, reply, 2)
		n += locktest.Integer(t, reply[1])
	}
	return n
}

// P9: Java acquires a lock whose name is in two slots, since that needs one key, and then cannot release it. In Go it is no name.
func TestJavaCannotUnlockANameInTwoSlots(t *testing.T) {
	t.Parallel()
	programOf(t, "redisson4")
	cluster := redistest.StartCluster(t, redistest.WithFailoverAfter(calm))
	eachRelease(t, func(t *testing.T, release string) {
		p, s := newClusterPeer(t, release, cluster, "auto"), newSession(t, cluster)
		for _, name := range []string{"a{b", "a{}b", "a}b", "{}", "}{"} { // their key and their channel are in two slots
			require.ErrorIs(t, reentrant.New(s, name).Check(), signalbox.ErrBadName, name)
			name += release
			p.must(t, "a", "lock", name, time.Hour.Milliseconds())
			require.Contains(t, refused(t, p.send("a", "unlock", name)), "CROSSSLOT", name)
			owner := cluster.Owner(t, cluster.Slot(t, name))
			require.Equal(t, map[string]string{p.owner(t, "a"): "1"}, hash(t, owner, name))
		}
	})
}
