// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/rwlock"
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

// P6: one release lets in all readers that wait, of both sides, however many wait in a process.
func TestTheEndOfWritingAdmitsAllReaders(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p := newPeer(t, release, server)
		for _, writer := range []side{javaHalf{p, "writer", writing}, newGoHalf(t, server, writing)} {
			took(t, writer.take("x"))
			var taken []<-chan error
			var readers []side
			for n := range 3 {
				readers = append(readers, javaHalf{p, strconv.Itoa(n), reading}, newGoHalf(t, server, reading))
			}
			for _, r := range readers {
				taken = append(taken, r.take("x"))
			}
			redistest.Await(t, "all of them listen", func() bool { return listeners(t, server, rwChannel("x")) == 4 })
			writer.release(t, "x")
			for _, each := range taken {
				tookByMessage(t, each, notifiesRW(t, server, "x"))
			}
			for _, r := range readers {
				r.release(t, "x")
			}
		}
		awaitNothing(t, server)
	})
}

// A writer in Go becomes a reader: readers of both sides enter, and no writer does.
func TestADowngradeInGoLetsJavaReadersIn(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p, g := newPeer(t, release, server), newGoHalf(t, server, writing)
		took(t, g.take("x"))
		lease := g.leases["x"]
		reader, second := javaHalf{p, "a", reading}.take("x"), newGoHalf(t, server, reading)
		taken := second.take("x")
		redistest.Await(t, "both listen", func() bool { return listeners(t, server, rwChannel("x")) == 2 })
		require.NoError(t, g.lock("x").Downgrade(locktest.Context(t), lease))
		tookByMessage(t, reader, notifiesRW(t, server, "x"))
		took(t, taken)
		owners := ownersOf(t, server, "x")
		require.Len(t, owners, 3)
		requireKeys(t, server, "x", timeoutOf("x", owners[0], "1"), timeoutOf("x", owners[1], "1"), timeoutOf("x", owners[2], "1"))
		require.Equal(t, "false", p.must(t, "b", "rw.try", "x", "write", 0, 1000))
		require.NoError(t, lease.Err())
		require.NoError(t, lease.Unlock())
		second.release(t, "x")
		p.must(t, "a", "rw.unlock", "x", "read")
		awaitNothing(t, server)
	})
}

// P1, P6: what a process of Java held that was killed goes to Go when it ends, and not before.
func TestAReadWriteLockOfADeadJavaProcessGoesToGo(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		for _, half := range []string{reading, writing} {
			t.Run(half, func(t *testing.T) {
				t.Parallel()
				server := redistest.Start(t)
				p, g := newMortal(t, release, server), newGoHalf(t, server, writing)
				p.must(t, "a", "rw.lock", "a", half, -1)
				taken := g.take("a")
				redistest.Await(t, "a waiter listens", func() bool { return listeners(t, server, rwChannel("a")) == 1 })
				renewed(t, server, "a")
				p.dies(t)
				last := ends(t, server, "a")
				took(t, taken)
				require.GreaterOrEqual(t, now(), last, half)
				g.release(t, "a")
				awaitNothing(t, server)
			})
		}
	})
}

// P1, P6: the same the other way round.
func TestAReadWriteLockOfADeadGoProcessGoesToJava(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		for _, half := range []string{reading, writing} {
			t.Run(half, func(t *testing.T) {
				t.Parallel()
				server := redistest.Start(t)
				p := newPeer(t, release, server)
				holder := holdsHalf(t, server, half)
				reply := p.send("a", "rw.lock", "a", "write", 60_000)
				redistest.Await(t, "a waiter listens", func() bool { return listeners(t, server, rwChannel("a")) == 1 })
				renewed(t, server, "a")
				holder.Kill()
				last := ends(t, server, "a")
				p.take(t, reply)
				require.GreaterOrEqual(t, now(), last, half)
				p.must(t, "a", "rw.unlock", "a", "write")
				awaitNothing(t, server)
			})
		}
	})
}

// P2: each side renews its own readers, even if they are in one hash. One line of Redisson renews those of
// the other side too. The hold of a reader that died ends while the other continues, or delays a writer by
// its lease at most after the other has left.
func TestEachSideRenewsItsOwnReaders(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		for _, dead := range []string{"java", "go"} {
			t.Run(dead, func(t *testing.T) {
				t.Parallel()
				server := redistest.Start(t)
				p, holder := newMortal(t, release, server), holdsHalf(t, server, reading)
				owners := map[string]string{"go": ownersOf(t, server, "a")[0], "java": p.owner(t, "a")}
				p.must(t, "a", "rw.lock", "a", "read", -1)
				for range 2 {
					renewed(t, server, timeoutOf("a", owners["java"], "1"))
					renewed(t, server, timeoutOf("a", owners["go"], "1"))
				}
				survivor := "go"
				if dead == "go" {
					survivor = "java"
					holder.Kill()
				} else {
					p.dies(t)
				}
				if dead == "go" && release == "redisson3" {
					renewed(t, server, timeoutOf("a", owners[dead], "1")) // as TestAJavaReaderRenewsItsOwnSince44 has it
				} else {
					awaitEnd(t, server, timeoutOf("a", owners[dead], "1"))
				}
				for range 2 {
					renewed(t, server, timeoutOf("a", owners[survivor], "1"))
				}
				require.Equal(t, map[string]string{"mode": "read", owners["go"]: "1", owners["java"]: "1"}, hash(t, server, "a"))
				g := newGoHalf(t, server, writing)
				taken := g.take("a")
				redistest.Await(t, "a waiter listens", func() bool { return listeners(t, server, rwChannel("a")) == 1 })
				if dead == "go" {
					p.must(t, "a", "rw.unlock", "a", "read")
				} else {
					holder.Send("give it back")
					said, err := holder.ReadLine(redistest.WaitLimit)
					require.NoError(t, err)
					require.Equal(t, "lost false, reported by Unlock false", said)
				}
				took(t, taken)
				g.release(t, "a")
				awaitNothing(t, server)
			})
		}
	})
}

// P1: no interleaving of readers and writers of both sides lets a writer be not alone.
func TestAWriterIsAloneAmongBothSides(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) { yardWork(t, release, 1, 80, 5*time.Minute) })
}

// P1: the same, again and again.
func TestSoakAWriterIsAloneAmongBothSides(t *testing.T) { //nolint:paralleltest // has the machine to itself
	more, lines := locktest.Soak(t), []string{"redisson4", "redisson3"}
	for i := 0; more(); i++ {
		t.Run(strconv.Itoa(i), func(t *testing.T) { // which ends its processes
			yardWork(t, lines[i%len(lines)], i, 500, time.Hour)
		})
	}
}

// yardWork lets workers of both sides read and write.
func yardWork(t *testing.T, release string, seed, times int, limit time.Duration) {
	t.Helper()
	server := redistest.Start(t)
	p := newPeer(t, release, server)
	var threads []<-chan string
	var processes []*redistest.Process
	for n := range workers {
		threads = append(threads, p.send(strconv.Itoa(n), "rw.work", "work", "yard", times, seed*workers+n))
		processes = append(processes, child(t, "rwworker", server, 30*time.Second, timesEnv+"="+strconv.Itoa(times), seedEnv+"="+strconv.Itoa(seed*workers+n)))
	}
	awaitWorkers(t, p, threads, processes, times, limit)
	for _, key := range []string{"yard:readers", "yard:writers"} {
		require.Contains(t, []any{"0", nil}, server.MustDo(t, "GET", key))
	}
	server.MustDo(t, "DEL", "yard:readers", "yard:writers")
	awaitNothing(t, server)
}

// What either side says of what the other holds.
func TestEachSideSeesHowTheOtherReadsAndWrites(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p := newPeer(t, release, server)
		for half, read := range map[string]string{reading: "true", writing: "false"} {
			g := newGoHalf(t, server, half)
			took(t, g.take("a"))
			require.Equal(t, read, p.must(t, "a", "rw.locked", "a", "read"))
			require.Equal(t, map[string]string{"true": "false", "false": "true"}[read], p.must(t, "a", "rw.locked", "a", "write"))
			for _, each := range []string{reading, writing} {
				require.Equal(t, "false", p.must(t, "a", "rw.mine", "a", each))
				require.Equal(t, "0", p.must(t, "a", "rw.count", "a", each))
			}
			left, err := strconv.ParseInt(p.must(t, "a", "rw.ttl", "a", half), 10, 64)
			require.NoError(t, err)
			require.Positive(t, left)
			require.LessOrEqual(t, left, time.Hour.Milliseconds())
			g.release(t, "a")
			require.Equal(t, "false", p.must(t, "a", "rw.locked", "a", half))

			p.must(t, "a", "rw.lock", "b", half, 60_000)
			p.must(t, "a", "rw.lock", "b", half, 60_000)
			isLocked, err := g.lock("b").IsLocked(locktest.Context(t))
			require.NoError(t, err)
			require.True(t, isLocked)
			var holders []signalbox.Holder
			for h, err := range g.lock("b").Holders(locktest.Context(t)) {
				require.NoError(t, err)
				holders = append(holders, h)
			}
			require.Len(t, holders, 1)
			require.Equal(t, p.owner(t, "a"), holders[0].Label)
			require.Equal(t, half == reading, holders[0].Shared)
			require.Zero(t, holders[0].Token)
			require.Zero(t, holders[0].Since)
			require.InDelta(t, ends(t, server, "b"), holders[0].Until.UnixMilli(), 1000)
			p.must(t, "a", "rw.unlock", "b", half)
			p.must(t, "a", "rw.unlock", "b", half)
			isLocked, err = g.lock("b").IsLocked(locktest.Context(t))
			require.NoError(t, err)
			require.False(t, isLocked)
		}
		awaitNothing(t, server)
	})
}

// P2: a read-write lock is taken by force from either side, by either.
func TestEitherSideTakesAReadWriteLockByForce(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p := newPeer(t, release, server)
		s := locktest.Session(t, server, signalbox.WithDefaults(signalbox.WithLayout(redisson.Layout()), signalbox.WithRenewedLease(5*time.Second)))
		lock := rwlock.New(s, "a")
		for half, take := range map[string]func(context.Context) (signalbox.Lease, error){reading: lock.RLock, writing: lock.Lock} {
			p.must(t, "a", "rw.lock", "a", half, 60_000)
			waiter := javaHalf{p, "b", writing}.take("a")
			redistest.Await(t, "a waiter listens", func() bool { return listeners(t, server, rwChannel("a")) == 1 })
			require.NoError(t, lock.ForceUnlock(locktest.Context(t)))
			tookByMessage(t, waiter, notifiesRW(t, server, "a"))
			p.must(t, "b", "rw.unlock", "a", "write")
			requireKeys(t, server)

			lease, err := take(locktest.Context(t))
			require.NoError(t, err)
			require.Equal(t, "true", p.must(t, "a", "rw.force", "a", half))
			redistest.Receive(t, "the loss, by a renewal", lease.Done())
			require.ErrorIs(t, lease.Err(), signalbox.ErrLost)
			awaitNothing(t, server)
		}
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
