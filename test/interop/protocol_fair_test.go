// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

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
	redistest.Await(t, "a waiter listens", func() bool { return listeners(t, server, last) > 0 })
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

func TestAFairLockOfJavaIsAnRLockAndAQueue(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p := newPeer(t, release, server)
		owners := p.ownersOf(t, "a", "b", "c")
		p.must(t, "a", "fair-lock", "a", 60_000)
		require.Equal(t, map[string]string{owners[0]: "1"}, hash(t, server, "a"))
		require.Equal(t, int64(0), server.MustDo(t, "EXISTS", queueKey, deadlinesKey))
		require.Equal(t, "false", p.must(t, "b", "try", "a", 0, 1000), "an RLock of the name is shut out")
		b := p.send("b", "fair-lock", "a", 60_000)
		awaitQueued(t, server, 1)
		c := p.send("c", "fair-lock", "a", 60_000)
		awaitQueued(t, server, 2)
		require.Equal(t, owners[1:], queued(t, server))
		require.Equal(t, int64(2), server.MustDo(t, "ZCARD", deadlinesKey))
		for _, key := range []string{queueKey, deadlinesKey} {
			require.Equal(t, int64(-1), server.MustDo(t, "PTTL", key), "it has no end")
		}
		p.must(t, "a", "fair-lock", "a", 60_000)
		p.must(t, "a", "fair-unlock", "a")
		require.Empty(t, b, "it has entered twice")
		p.must(t, "a", "fair-unlock", "a")
		p.take(t, b)
		require.Empty(t, c)
		require.Equal(t, map[string]string{owners[1]: "1"}, hash(t, server, "a"))
		p.must(t, "b", "fair-unlock", "a")
		p.take(t, c)
		require.Equal(t, int64(0), server.MustDo(t, "EXISTS", queueKey, deadlinesKey))
		p.must(t, "c", "fair-unlock", "a")
	})
}

func TestJavaChainsTheDeadlinesOfAQueue(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p := newPeer(t, release, server)
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
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p := newPeer(t, release, server)
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

func TestAFairJavaWaiterIsWokenOnAChannelOfItsOwn(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p := newPeer(t, release, server)
		owner := p.owner(t, "a")
		held(t, server, "a", time.Hour)
		reply := p.send("a", "fair-lock", "a", 60_000)
		awaitQueued(t, server, 1)
		require.Zero(t, listeners(t, server, "redisson_lock__channel:{a}"))
		server.MustDo(t, "DEL", "a")
		server.MustDo(t, "PUBLISH", queueChannel+owner, "0")
		p.take(t, reply)
		redistest.Await(t, "the end of the subscription", func() bool { return listeners(t, server, queueChannel+owner) == 0 })
	})
}

func TestJavaDropsTheHeadOfTheQueueAtItsDeadline(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p := newPeer(t, release, server)
		addToQueue(t, server, "x", now()-1)
		addToQueue(t, server, "y", now()+waitMS)
		addToQueue(t, server, "z", now()-1)
		published := receive(t, server, queueChannel+"x")
		require.Equal(t, "false", p.must(t, "a", "fair-trynow", "a"))
		require.Equal(t, []string{"y", "z"}, queued(t, server), "who is not the first is left alone, and who tries gets no place")
		require.Equal(t, int64(2), server.MustDo(t, "ZCARD", deadlinesKey))
		require.Empty(t, published, "it is not notified")
	})
}

func TestJavaAsksAgainWithoutAPauseBehindADeadWaiter(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p := newPeer(t, release, server)
		addToQueue(t, server, "x", now()+waitMS)
		p.send("a", "fair-lock", "a", 60_000)
		redistest.Await(t, "a ticket in the queue", func() bool { return len(queued(t, server)) == 2 })
		// It sleeps first, for as long as the place before it is good for; a message is enough to let it begin.
		awaitQueued(t, server, 2)
		server.MustDo(t, "PUBLISH", queueChannel+queued(t, server)[1], "0")
		before := server.CommandStats()["hexists"].Calls
		redistest.Await(t, "hundreds of tries", func() bool { return server.CommandStats()["hexists"].Calls > before+200 })
	})
}

// A Java client whose subscription is not confirmed throws, and leaves its ticket in the queue: no
// client is granted the lock until its deadline. If the same thread calls lock again it continues
// with that ticket, and the queue moves on.
func TestJavaLeavesItsTicketWhenItsSubscriptionFails(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		proxy := redistest.NewProxy(t, server.Addr())
		proxy.SetMatch(func(request []string) bool { return strings.EqualFold(request[0], "SUBSCRIBE") })
		holder := newPeer(t, release, server)
		p := startPeer(t, release, single(proxy.Addr())...)
		owner := p.owner(t, "a")
		holder.must(t, "a", "fair-lock", "a", time.Hour.Milliseconds())
		proxy.Arm(redistest.Fault{Kind: redistest.SwallowRequest})
		require.Contains(t, refused(t, p.send("a", "fair-lock", "a", 60_000)), "RedisTimeoutException")
		require.Equal(t, []string{owner}, queued(t, server))

		g := newGoFair(t, server)
		taken := g.take("a")
		awaitQueued(t, server, 2)
		holder.must(t, "a", "fair-unlock", "a")
		require.Equal(t, int64(0), server.MustDo(t, "EXISTS", "a"), "the lock is free")
		require.Equal(t, "false", holder.must(t, "b", "fair-trynow", "a"), "and cannot be acquired")
		require.Greater(t, deadline(t, server, owner)-now(), waitMS/2, "for minutes")

		p.must(t, "a", "fair-lock", "a", 60_000)
		require.Equal(t, map[string]string{owner: "1"}, hash(t, server, "a"))
		require.Empty(t, taken)
		p.must(t, "a", "fair-unlock", "a")
		took(t, taken)
		g.release(t, "a")
		awaitNothing(t, server)
	})
}
