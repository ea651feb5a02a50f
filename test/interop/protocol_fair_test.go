// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/locktest"
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
