// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/redisson"
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
