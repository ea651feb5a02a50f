// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/rwlock"
)

// P1, P6: holders and waiters of both sides get the lock in the order of their requests, and each is
// notified on a channel of its own.
func TestBothSidesShareOneQueue(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p, other := newPeer(t, release, server), newPeer(t, release, server)
		order := []side{
			newJavaFair(p, "a"),
			newGoSide(t, server, byFair), newGoSide(t, server, byFair),
			newJavaFair(p, "b"),
			newJavaFair(other, "a"),
			newGoSide(t, server, byFair),
			newJavaFair(p, "c"),
			newGoSide(t, server, byFair),
		}
		for range 3 {
			took(t, order[0].take("a"))
			taken := make([]<-chan error, len(order))
			for i, s := range order[1:] {
				taken[i+1] = s.take("a")
				awaitQueued(t, server, i+1)
			}
			waiting := queued(t, server)
			for i := range order[1:] {
				published := receive(t, server, queueChannel+waiting[i])
				order[i].release(t, "a")
				took(t, taken[i+1])
				require.Equal(t, queueChannel+waiting[i]+" 0", next(t, published))
				require.Equal(t, map[string]string{waiting[i]: "1"}, hash(t, server, "a"))
				for _, later := range taken[min(i+2, len(taken)-1)+1:] {
					require.Empty(t, later, "out of order")
				}
			}
			order[len(order)-1].release(t, "a")
			awaitNothing(t, server)
			order = append(order[1:], order[0]) // other pairs
		}
	})
}

// runFairWaiter takes the fair lock "a", says so, and gives it back when its input ends; it holds it until it is killed else.
func runFairWaiter(stdin io.Reader, stdout io.Writer) {
	s := dial()
	lease, err := fair.New(s, "a").Lock(context.Background())
	must(err)
	fmt.Fprintln(stdout, "held")
	for in := bufio.NewScanner(stdin); in.Scan(); {
		must(lease.Unlock())
	}
}

// P1, P6: if a holder was killed, on either side, the head of the queue has the lock when the key ends, and
// not before.
func TestTheQueueContinuesBehindADeadHolder(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		dead, p := newMortal(t, release, server), newPeer(t, release, server)
		dead.must(t, "a", "fair-lock", "a", -1)
		g := newGoSide(t, server, byFair)
		taken := g.take("a")
		awaitQueued(t, server, 1)
		second := p.send("a", "fair-lock", "a", 60_000)
		awaitQueued(t, server, 2)
		renewed(t, server, "a")
		dead.dies(t)
		last := redistest.EndOf(t, server, "a")
		took(t, taken)
		require.GreaterOrEqual(t, now(), last)
		require.Empty(t, second)
		g.release(t, "a")
		p.take(t, second)
		p.must(t, "a", "fair-unlock", "a")

		holder := child(t, "fair", server, 5*time.Second)
		said, err := holder.ReadLine(redistest.WaitLimit)
		require.NoError(t, err, holder.Stderr())
		require.Equal(t, "held", said)
		first := p.send("a", "fair-lock", "a", 60_000)
		awaitQueued(t, server, 1)
		taken = g.take("a")
		awaitQueued(t, server, 2)
		renewed(t, server, "a")
		holder.Kill()
		last = redistest.EndOf(t, server, "a")
		p.take(t, first)
		require.GreaterOrEqual(t, now(), last)
		require.Empty(t, taken)
		p.must(t, "a", "fair-unlock", "a")
		took(t, taken)
		g.release(t, "a")
		awaitNothing(t, server)
	})
}

// P6: if a waiter was killed, on either side, the queue continues at the deadline of its ticket. In Java
// that is 5 minutes away, so the test moves it.
func TestTheQueueContinuesBehindADeadWaiter(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p, g := newPeer(t, release, server), newGoSide(t, server, byFair)
		for name, waits := range map[string]func() func(){
			"java": func() func() {
				dead := newMortal(t, release, server)
				dead.send("a", "fair-lock", "a", 60_000)
				return func() { dead.dies(t) }
			},
			"go": func() func() { return child(t, "fair", server, 5*time.Second).Kill },
		} {
			p.must(t, "a", "fair-lock", "a", 60_000)
			dies := waits()
			awaitQueued(t, server, 1)
			dead := queued(t, server)[0]
			taken := g.take("a")
			awaitQueued(t, server, 2)
			last := p.send("b", "fair-lock", "a", 60_000)
			awaitQueued(t, server, 3)
			dies()
			p.must(t, "a", "fair-unlock", "a")
			require.Greater(t, deadline(t, server, dead)-now(), waitMS/2, "Java's rule")
			require.Empty(t, taken, name)
			server.MustDo(t, "ZADD", deadlinesKey, "XX", now(), dead)
			took(t, taken)
			g.release(t, "a")
			p.take(t, last)
			p.must(t, "b", "fair-unlock", "a")
			awaitNothing(t, server)
		}
	})
}

// The same in a cluster, by each kind of channel.
func TestBothSidesShareOneQueueInACluster(t *testing.T) {
	t.Parallel()
	programOf(t, "redisson4")
	cluster := redistest.StartCluster(t, redistest.WithFailoverAfter(calm))
	eachRelease(t, func(t *testing.T, release string) {
		for mode, options := range map[string][]redisson.Option{
			"auto": nil, "off": {redisson.PlainChannels}, "on": {redisson.PlainChannels, redisson.ShardedChannels},
		} {
			key := nameOf("fair", release, mode)
			queue := "redisson_lock_queue:{" + key + "}"
			owner := cluster.Owner(t, cluster.Slot(t, key))
			java := newJavaFair(newClusterPeer(t, release, cluster, mode), "a")
			first, last := newGoSide(t, cluster, byFair, options...), newGoSide(t, cluster, byFair, options...)
			for range 3 {
				took(t, first.take(key))
				second := java.take(key)
				redistest.Await(t, "a ticket", func() bool { return owner.MustDo(t, "LLEN", queue) == int64(1) })
				third := last.take(key)
				redistest.Await(t, "another ticket", func() bool { return owner.MustDo(t, "LLEN", queue) == int64(2) })
				first.release(t, key)
				took(t, second)
				require.Empty(t, third, mode)
				java.release(t, key)
				took(t, third)
				last.release(t, key)
				require.Equal(t, int64(0), owner.MustDo(t, "EXISTS", key, queue, "redisson_lock_timeout:{"+key+"}"))
			}
		}
	})
}

// These tests look at what the Java client does with a fair lock. docs/redisson-protocol.md says what they see.

// The keys of the fair lock "a", and what stands before the owner in a channel of its line.
const (
	queueKey, deadlinesKey = "redisson_lock_queue:{a}", "redisson_lock_timeout:{a}"
	queueChannel           = "redisson_lock__channel:{a}:"
	// waitMS is how long a ticket is valid, by default.
	waitMS int64 = 300_000
	// stays is how long a waiter waits that then gives up, in ms: until others have queued behind it, also
	// on a busy machine.
	stays int64 = 8000
)

// queued returns the owners in the queue, the head first.
func queued(t *testing.T, server *redistest.Server) (owners []string) {
	t.Helper()
	list, _ := server.MustDo(t, "LRANGE", queueKey, 0, -1).([]any)
	for _, owner := range list {
		text, _ := owner.(string)
		owners = append(owners, text)
	}
	return owners
}

// deadline returns when an owner loses its ticket, in ms.
func deadline(t *testing.T, server *redistest.Server, owner string) int64 {
	t.Helper()
	text, _ := server.MustDo(t, "ZSCORE", deadlinesKey, owner).(string)
	ms, err := strconv.ParseInt(text, 10, 64)
	require.NoError(t, err, "%s: %q", owner, text)
	return ms
}

// awaitQueued waits until n owners are queued and the last of them listens.
func awaitQueued(t *testing.T, server *redistest.Server, n int) {
	t.Helper()
	redistest.Await(t, "a ticket in the queue", func() bool { return len(queued(t, server)) == n })
	last := queueChannel + queued(t, server)[n-1]
	redistest.Await(t, "a waiter listens", func() bool { return locktest.Listeners(t, server, last) > 0 })
}

// joinQueue puts an owner at the tail of the queue in one step, because other clients poll the queue meanwhile.
const joinQueue = `redis.call('RPUSH', KEYS[1], ARGV[1]) redis.call('ZADD', KEYS[2], ARGV[2], ARGV[1])`

// addToQueue puts an owner that is neither Java nor Go at the tail of the queue.
func addToQueue(t *testing.T, server *redistest.Server, owner string, deadline int64) {
	t.Helper()
	server.MustDo(t, "EVAL", joinQueue, 2, queueKey, deadlinesKey, owner, deadline)
}

// ownersOf returns the owner names of threads. A waiting thread does not reply, so they are asked before.
func (p *peer) ownersOf(t *testing.T, threads ...string) (owners []string) {
	t.Helper()
	for _, thread := range threads {
		owners = append(owners, p.owner(t, thread))
	}
	return owners
}

func TestJavaChainsTheDeadlinesOfAQueue(t *testing.T) {
	t.Parallel()
	eachPeer(t, func(t *testing.T, server *redistest.Server, p *peer) {
		owners := p.ownersOf(t, "b", "c", "d", "e")
		before := now()
		held(t, server, "a", time.Hour)
		p.send("b", "fair-lock", "a", 60_000)
		awaitQueued(t, server, 1)
		p.send("c", "fair-lock", "a", 60_000)
		awaitQueued(t, server, 2)
		d := p.send("d", "fair-try", "a", stays, 60_000)
		awaitQueued(t, server, 3)
		p.send("e", "fair-lock", "a", 60_000)
		awaitQueued(t, server, 4)
		first := deadline(t, server, owners[0])
		require.InDelta(t, before+time.Hour.Milliseconds()+waitMS, first, float64(redistest.Patience.Milliseconds()), "after the end of the lock")
		near := func(expected int64, owner string) { // it asks the clock, and counts from the left of the deadline before
			t.Helper()
			require.InDelta(t, expected, deadline(t, server, owner), 1)
		}
		near(first+waitMS, owners[1])
		near(first+waitMS+stays, owners[2])
		near(first+2*waitMS+stays, owners[3])
		require.Equal(t, "false", p.take(t, d), "it gives up")
		redistest.Await(t, "the end of its ticket", func() bool { return len(queued(t, server)) == 3 })
		near(first+waitMS, owners[1])
		near(first+2*waitMS, owners[3]) // less by the wait of the one that has gone
		server.MustDo(t, "DEL", "a")
		server.MustDo(t, "PUBLISH", queueChannel+owners[0], "0")
		redistest.Await(t, "a grant", func() bool { return len(queued(t, server)) == 2 })
		near(first, owners[1])
		near(first+waitMS, owners[3])
	})
}

func TestJavaNotifiesTheHeadOfTheQueue(t *testing.T) {
	t.Parallel()
	eachPeer(t, func(t *testing.T, server *redistest.Server, p *peer) {
		published := receive(t, server, queueChannel+"x", queueChannel+"y", "redisson_lock__channel:{a}")
		addToQueue(t, server, "x", now()+waitMS)
		addToQueue(t, server, "y", now()+waitMS)
		for _, verb := range []string{"fair-unlock", "fair-force"} {
			server.MustDo(t, "HSET", "a", p.owner(t, "a"), "1")
			p.must(t, "a", verb, "a")
			require.Equal(t, queueChannel+"x 0", next(t, published), verb)
		}
		require.Equal(t, "ok true", <-p.send("b", "fair-unlock", "a"), "the lock is free, and the caller is no owner")
		require.Equal(t, queueChannel+"x 0", next(t, published), "all the same")
		require.Empty(t, published)
	})
}

func TestJavaDropsTheHeadOfTheQueueAtItsDeadline(t *testing.T) {
	t.Parallel()
	eachPeer(t, func(t *testing.T, server *redistest.Server, p *peer) {
		addToQueue(t, server, "x", now()-1)
		addToQueue(t, server, "y", now()+waitMS)
		addToQueue(t, server, "z", now()-1)
		published := receive(t, server, queueChannel+"x")
		require.Equal(t, "false", p.must(t, "a", "fair-trynow", "a"))
		require.Equal(t, []string{"y", "z"}, queued(t, server), "only the first in the queue is removed, and a try makes no entry")
		require.Equal(t, int64(2), server.MustDo(t, "ZCARD", deadlinesKey))
		require.Empty(t, published, "it is not notified")
	})
}

// short is the fairLockWaitTimeout of the Java clients here.
const short = 4 * time.Second

// P6: with the same fairLockWaitTimeout on both sides a ticket is valid for that long, whichever
// side has it and whichever is granted the lock. A dead waiter delays the others by that, not by
// the default of 5 minutes.
func TestADeadWaiterDelaysByTheFairLockWaitTimeout(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		timeout := strconv.FormatInt(short.Milliseconds(), 10)
		p, dead := startPeer(t, release, append(single(server.Addr()), timeout)...), newMortal(t, release, server, timeout)
		set := redisson.FairLockWaitTimeout(short)
		before, behind := newGoSide(t, server, byFair, set), newGoSide(t, server, byFair, set)

		// In the queue: Go, a Java process that dies, Go again, Java.
		p.must(t, "a", "fair-lock", "a", time.Hour.Milliseconds())
		first := before.take("a")
		awaitQueued(t, server, 1)
		dead.send("a", "fair-lock", "a", 60_000)
		awaitQueued(t, server, 2)
		third := behind.take("a")
		awaitQueued(t, server, 3)
		last := p.send("b", "fair-lock", "a", 60_000)
		awaitQueued(t, server, 4)
		dead.dies(t)
		waiting := queued(t, server)
		from := deadline(t, server, waiting[0])
		for i, owner := range waiting {
			chained := from + int64(i)*short.Milliseconds()
			require.InDelta(t, chained, deadline(t, server, owner), 1, "the deadline of ticket %d", i)
		}

		// At a grant to Go all tickets get closer by one timeout.
		p.must(t, "a", "fair-unlock", "a")
		took(t, first)
		require.InDelta(t, from, deadline(t, server, waiting[1]), 1)

		// The next waiter is granted the lock when the dead waiter's ticket ends. That was counted from the
		// end of the first lease, which is an hour away, so it is moved to a timeout from now.
		server.MustDo(t, "ZADD", deadlinesKey, "XX", now()+short.Milliseconds(), waiting[1])
		before.release(t, "a")
		took(t, third)
		behind.release(t, "a")
		p.take(t, last)
		p.must(t, "b", "fair-unlock", "a")
		awaitNothing(t, server)
	})
}

// The option is one of a fair lock alone.
func TestTheFairLockWaitTimeoutIsOfFairLocks(t *testing.T) {
	t.Parallel()
	s := locktest.Session(t, redistest.Start(t))
	timeout := redisson.FairLockWaitTimeout(short)
	alone, fenced := signalbox.WithLayout(redisson.Layout(timeout)), signalbox.WithLayout(redisson.Layout(timeout, redisson.Fenced))
	require.NoError(t, fair.New(s, "a", alone).Check())
	require.ErrorIs(t, fair.New(s, "a", fenced).Check(), signalbox.ErrBadOption)
	require.ErrorIs(t, reentrant.New(s, "a", alone).Check(), signalbox.ErrBadOption)
	require.ErrorIs(t, rwlock.New(s, "a", alone).Check(), signalbox.ErrBadOption)
}
