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

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/redisson"
)

// javaFair is a thread of a Java process that uses the fair lock.
type javaFair struct {
	javaSide
}

func (j javaFair) take(name string) <-chan error {
	return j.peer.later(j.peer.send(j.thread, "fair-lock", name, time.Hour.Milliseconds()))
}

func (j javaFair) release(t *testing.T, name string) {
	t.Helper()
	j.peer.must(t, j.thread, "fair-unlock", name)
}

// goFair is a waiter in Go.
type goFair struct {
	lock  *fair.Lock
	lease *signalbox.Lease
}

// newGoFair returns one of a session of its own, whose leases outlive every test.
func newGoFair(t *testing.T, to clients) goFair {
	t.Helper()
	s := locktest.Session(t, to, signalbox.WithDefaults(signalbox.WithLayout(redisson.Layout()), signalbox.WithRenewedLease(time.Hour)))
	return goFair{fair.New(s, "a"), new(signalbox.Lease)}
}

func (g goFair) take(string) <-chan error {
	taken := make(chan error, 1)
	go func() {
		lease, err := g.lock.Lock(context.Background())
		*g.lease = lease // read after taken was heard
		taken <- err
	}()
	return taken
}

func (g goFair) release(t *testing.T, _ string) {
	t.Helper()
	require.NoError(t, g.lease.Unlock())
}

// P1, P6: holders and waiters of both sides get the lock in the order of their requests, and each is
// notified on a channel of its own.
func TestBothSidesShareOneQueue(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p, other := newPeer(t, release, server), newPeer(t, release, server)
		order := []side{
			javaFair{javaSide{p, "a"}},
			newGoFair(t, server), newGoFair(t, server),
			javaFair{javaSide{p, "b"}},
			javaFair{javaSide{other, "a"}},
			newGoFair(t, server),
			javaFair{javaSide{p, "c"}},
			newGoFair(t, server),
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
		g := newGoFair(t, server)
		taken := g.take("a")
		awaitQueued(t, server, 1)
		second := p.send("a", "fair-lock", "a", 60_000)
		awaitQueued(t, server, 2)
		renewed(t, server, "a")
		dead.dies(t)
		last := ends(t, server, "a")
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
		last = ends(t, server, "a")
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
		p, g := newPeer(t, release, server), newGoFair(t, server)
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
			key := "fair-" + release + "-" + mode
			owner := cluster.Owner(t, cluster.Slot(t, key))
			p := newClusterPeer(t, release, cluster, mode)
			s := locktest.Session(t, cluster, signalbox.WithDefaults(signalbox.WithLayout(redisson.Layout(options...)), signalbox.WithRenewedLease(time.Hour)))
			mu := fair.New(s, key)
			for round := range 3 {
				lease, err := mu.Lock(locktest.Context(t))
				require.NoError(t, err)
				java := p.send("a", "fair-lock", key, 60_000)
				waits := func(n int64) {
					redistest.Await(t, "a ticket in the queue", func() bool {
						return owner.MustDo(t, "LLEN", "redisson_lock_queue:{"+key+"}") == n
					})
				}
				waits(1)
				again := make(chan signalbox.Lease, 1)
				go func() {
					lease, err := mu.Lock(context.Background())
					if err == nil {
						again <- lease
					}
				}()
				waits(2)
				require.NoError(t, lease.Unlock())
				p.take(t, java)
				require.Empty(t, again, "%s, round %d", mode, round)
				p.must(t, "a", "fair-unlock", key)
				select {
				case lease = <-again:
				case <-locktest.Context(t).Done():
					require.FailNow(t, "the lock is not taken")
				}
				require.NoError(t, lease.Unlock())
				require.Equal(t, int64(0), owner.MustDo(t, "EXISTS", key, "redisson_lock_queue:{"+key+"}", "redisson_lock_timeout:{"+key+"}"))
			}
		}
	})
}
