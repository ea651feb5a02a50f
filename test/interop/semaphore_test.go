// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/scripts"
	"github.com/signalbox-go/signalbox/semaphore"
)

// permitKind is one of the semaphores that Redisson has.
type permitKind struct {
	name    string
	options []signalbox.LockOption
}

func permitKinds() []permitKind {
	return []permitKind{{"permit", nil}, {"plain", []signalbox.LockOption{semaphore.Plain()}}}
}

// permitSide is a process that takes permits of a semaphore of three.
type permitSide interface {
	// take begins to acquire permits, without an end of their own, and returns the result.
	take(name string, n int) <-chan error
	// release releases the permits that take acquired.
	release(t *testing.T, name string)
}

// javaPermits is a thread of a Java process.
type javaPermits struct {
	peer   *peer
	thread string
	kind   permitKind
	held   map[string]string // ids by semaphore, or how many they are
}

func (j javaPermits) take(name string, n int) <-chan error {
	ids, taken := strconv.Itoa(n), make(chan error, 1)
	arguments := []any{name, n}
	if j.kind.name == "permit" {
		arguments = append(arguments, time.Hour.Milliseconds())
	}
	reply := j.peer.send(j.thread, j.kind.name+"-take", arguments...)
	go func() {
		select {
		case text := <-reply:
			value, ok := strings.CutPrefix(text, "ok ")
			if !ok {
				taken <- errors.New(text)
				return
			}
			if j.kind.name == "permit" {
				ids = value
			}
			j.held[name] = ids // read after taken was heard
			taken <- nil
		case <-j.peer.done:
			taken <- errors.New("the Java process has ended")
		}
	}()
	return taken
}

func (j javaPermits) release(t *testing.T, name string) {
	t.Helper()
	verb := map[string]string{"permit": "permit-give-all", "plain": "plain-give"}[j.kind.name]
	require.NotEqual(t, "0", j.peer.must(t, j.thread, verb, name, j.held[name]))
}

// goPermits is a session.
type goPermits struct {
	session *signalbox.Session
	kind    permitKind
	leases  map[string]signalbox.Lease
}

func (g goPermits) of(name string) *semaphore.Semaphore {
	return semaphore.New(g.session, name, 3, g.kind.options...)
}

func (g goPermits) take(name string, n int) <-chan error {
	taken := make(chan error, 1)
	go func() {
		lease, err := g.of(name).Acquire(context.Background(), n)
		g.leases[name] = lease // read after taken was heard
		taken <- err
	}()
	return taken
}

func (g goPermits) release(t *testing.T, name string) {
	t.Helper()
	require.NoError(t, g.leases[name].Unlock())
}

func newGoPermits(t *testing.T, to clients, kind permitKind, option signalbox.LockOption) goPermits {
	t.Helper()
	session := locktest.Session(t, to, signalbox.WithDefaults(option, signalbox.WithRenewedLease(time.Hour)))
	return goPermits{session, kind, make(map[string]signalbox.Lease)}
}

// scheduled is the least time after which a waiter in Go tries again without a message.
const scheduled = 800 * time.Millisecond

// P1, P6: the waiter has its permits when there are enough, and not before, on whichever side holder and
// waiter are; and the message wakes it. A Java waiter does nothing else. A Go waiter tries about once a
// second, so the test counts the hand-offs that are faster, and repeats until there is one.
func TestEveryWaiterForPermitsIsWokenByEveryHolder(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		proxy := redistest.NewProxy(t, server.Addr())
		proxy.SetMatch(locktest.RunsScript(scripts.Load("redisson/permit-acquire", 1)))
		p, other := newPeer(t, release, server), newPeer(t, release, server)
		for _, kind := range permitKinds() {
			sides := map[string][2]permitSide{ // as holder, as waiter: a side waits in another process than it holds in
				"java": {javaPermits{p, "holder", kind, map[string]string{}}, javaPermits{other, "waiter", kind, map[string]string{}}},
				"go":   {newGoPermits(t, server, kind, signalbox.WithLayout(redisson.Layout())), newGoPermits(t, proxy, kind, signalbox.WithLayout(redisson.Layout()))},
			}
			for holder := range sides {
				for waiter := range sides {
					woken, late := 0, locktest.Context(t)
					for round := 0; round < rounds/2 || woken == 0 && late.Err() == nil; round++ {
						key := fmt.Sprintf("%s-%s-%s-%d", kind.name, holder, waiter, round)
						if round%2 == 0 || holder == "java" { // else Go says how many there are
							require.Equal(t, "true", p.must(t, "a", kind.name+"-found", key, 3))
						}
						from, to := sides[holder][0], sides[waiter][1]
						took(t, from.take(key, 2))
						taken := to.take(key, 2)
						redistest.Await(t, "a waiter listens", func() bool { return listeners(t, server, "redisson_sc:{"+key+"}") == 1 })
						require.Empty(t, taken, "taken while there are too few")
						given := time.Now()
						from.release(t, key)
						took(t, taken)
						if time.Since(given) < scheduled/2 {
							woken++
						}
						to.release(t, key)
						require.Equal(t, "3", p.must(t, "a", kind.name+"-available", key))
						require.Equal(t, "3", server.MustDo(t, "GET", key))
						require.Equal(t, []any{key}, server.MustDo(t, "KEYS", "*"+key+"*"), "nothing is left")
						server.MustDo(t, "DEL", key)
					}
					require.Positive(t, woken, "%s: %s to %s: no waiter is woken", kind.name, holder, waiter)
					t.Logf("%s: %s to %s: %d at once", kind.name, holder, waiter, woken)
				}
			}
		}
	})
}

// What each side says of permits that either has.
func TestBothSidesSeeTheSamePermits(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p := newPeer(t, release, server)
		s := locktest.Session(t, server, signalbox.WithDefaults(signalbox.WithLayout(redisson.Layout()), signalbox.WithRenewedLease(6*time.Second)))
		sem := semaphore.New(s, "a", 5)
		lease, err := sem.Acquire(locktest.Context(t), 2)
		require.NoError(t, err)
		require.Equal(t, "false", p.must(t, "a", "permit-found", "a", 9), "Go has said how many there are")
		java := p.must(t, "a", "permit-take", "a", 1, 60_000)
		agree := func(free, taken int) {
			t.Helper()
			require.Equal(t, strconv.Itoa(free), p.must(t, "a", "permit-available", "a"))
			require.Equal(t, strconv.Itoa(taken), p.must(t, "a", "permit-acquired", "a"))
			require.Equal(t, strconv.Itoa(free+taken), p.must(t, "a", "permit-capacity", "a"))
			available, err := sem.Available(locktest.Context(t))
			require.NoError(t, err)
			require.Equal(t, max(free, 0), available)
		}
		agree(2, 3)
		require.Empty(t, p.must(t, "a", "permit-try", "a", 3, 0, 60_000))
		_, err = sem.TryAcquire(locktest.Context(t), 3)
		require.ErrorIs(t, err, signalbox.ErrHeld)
		_, err = sem.TryAcquire(locktest.Context(t), 6)
		require.ErrorIs(t, err, signalbox.ErrCapacity)

		require.NoError(t, sem.SetCapacity(locktest.Context(t), 2))
		agree(-1, 3)
		p.must(t, "a", "permit-set", "a", 4)
		agree(1, 3)

		var own []string
		for h, err := range sem.Holders(locktest.Context(t)) {
			require.NoError(t, err)
			if h.Session == "" {
				require.Equal(t, java, h.Label)
				continue
			}
			own = append(own, h.Label)
		}
		require.Len(t, own, 2)
		before := permits(t, server, "a")
		redistest.Await(t, "a renewal of what Go has", func() bool {
			now := permits(t, server, "a")
			require.Equal(t, before[java], now[java])
			return now[own[0]] > before[own[0]] && now[own[0]] == now[own[1]]
		})
		require.Equal(t, "true", p.must(t, "a", "permit-lengthen", "a", own[0], 60_000))
		require.Equal(t, "true", p.must(t, "a", "permit-give", "a", java))
		agree(2, 2)
		require.NoError(t, lease.Err())
		require.NoError(t, lease.Unlock())
		agree(4, 0)
		require.Equal(t, "false", p.must(t, "a", "permit-give", "a", own[0]))
		require.Equal(t, []any{"a"}, server.MustDo(t, "KEYS", "*"))
	})
}

// P2: a client that knows a permit's id may release it, in any language. Its holder in Go is notified, and
// releases the rest, once.
func TestPermitsThatJavaReleasedAreLost(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p := newPeer(t, release, server)
		s := locktest.Session(t, server, signalbox.WithDefaults(signalbox.WithLayout(redisson.Layout()), signalbox.WithRenewedLease(5*time.Second)))
		lease, err := semaphore.New(s, "a", 3).Acquire(locktest.Context(t), 3)
		require.NoError(t, err)
		for id := range permits(t, server, "a") {
			require.Equal(t, "true", p.must(t, "a", "permit-give", "a", id))
			break
		}
		redistest.Receive(t, "the end of the lease", lease.Done())
		require.ErrorIs(t, lease.Err(), signalbox.ErrLost)
		redistest.Await(t, "all permits are free", func() bool { return p.must(t, "a", "permit-available", "a") == "3" })
		require.Equal(t, "3", server.MustDo(t, "GET", "a"))
	})
}

// P1, P6: permits of a process that was killed go to the other side when they end, and not before.
func TestPermitsOfADeadProcessGoToTheOther(t *testing.T) {
	t.Parallel()
	last := func(t *testing.T, server *redistest.Server) (end int64) {
		t.Helper()
		for _, ms := range permits(t, server, "a") {
			end = ms
		}
		return end
	}
	eachRelease(t, func(t *testing.T, release string) {
		t.Run("Java", func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			p := newMortal(t, release, server)
			p.must(t, "a", "permit-found", "a", 3)
			p.must(t, "a", "permit-take", "a", 3, 6000)
			g := newGoPermits(t, server, permitKinds()[0], signalbox.WithLayout(redisson.Layout()))
			taken := g.take("a", 3)
			p.dies(t)
			end := last(t, server)
			took(t, taken)
			require.GreaterOrEqual(t, now(), end)
			g.release(t, "a")
			require.Equal(t, "3", server.MustDo(t, "GET", "a"))
		})
		t.Run("Go", func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			p := newPeer(t, release, server)
			holder := child(t, "permits", server, 5*time.Second)
			said, err := holder.ReadLine(redistest.WaitLimit)
			require.NoError(t, err, holder.Stderr())
			require.Equal(t, "held", said)
			reply := p.send("a", "permit-take", "a", 3, 60_000)
			before := last(t, server)
			redistest.Await(t, "a renewal", func() bool { return last(t, server) > before })
			holder.Kill()
			end := last(t, server)
			ids := p.take(t, reply)
			require.GreaterOrEqual(t, now(), end)
			require.Equal(t, "3", p.must(t, "a", "permit-give-all", "a", ids))
			require.Equal(t, "3", server.MustDo(t, "GET", "a"))
		})
	})
}

// runPermits takes all permits of the semaphore "a", says so, and holds them until its input ends.
func runPermits(stdin io.Reader, stdout io.Writer) {
	_, err := semaphore.New(dial(), "a", 3).Acquire(context.Background(), 3)
	must(err)
	fmt.Fprintln(stdout, "held")
	for in := bufio.NewScanner(stdin); in.Scan(); {
		continue
	}
}

// memberEnv is what a worker calls itself in the set of those who are inside.
const memberEnv = "SIGNALBOX_INTEROP_MEMBER"

// capacity is how many permits the workers share.
const capacity = 3

// runCrowd acquires a permit many times, and each time counts the holders inside: each is a member of a
// set.
func runCrowd(_ io.Reader, stdout io.Writer) {
	times, err := strconv.Atoi(os.Getenv(timesEnv))
	must(err)
	option, err := rueidis.ParseURL(os.Getenv(urlEnv))
	must(err)
	signalbox.Tune(&option)
	client, err := rueidis.NewClient(option)
	must(err)
	s, ctx, me := dial(), context.Background(), os.Getenv(memberEnv)
	sem := semaphore.New(s, "crowd", capacity)
	for range times {
		must(sem.Do(ctx, 1, func(ctx context.Context, _ signalbox.Lease) error {
			if err := client.Do(ctx, client.B().Sadd().Key("inside").Member(me).Build()).Error(); err != nil {
				return err
			}
			n, err := client.Do(ctx, client.B().Scard().Key("inside").Build()).AsInt64()
			if err != nil {
				return err
			}
			if n > capacity {
				return fmt.Errorf("%d are inside", n)
			}
			return client.Do(ctx, client.B().Srem().Key("inside").Member(me).Build()).Error()
		}))
	}
	must(s.Close(ctx))
	client.Close()
	fmt.Fprintln(stdout, "done")
}

// crowd lets workers of both sides take permits, kills some of them, and fails the test where more are inside than there are permits.
func crowd(t *testing.T, release string, times int, limit time.Duration) {
	t.Helper()
	server := redistest.Start(t)
	p, victim := newPeer(t, release, server), newMortal(t, release, server)
	p.must(t, "0", "permit-found", "crowd", capacity)
	work := func(p *peer, thread string) <-chan string {
		return p.send(thread, "permit-work", "crowd", "inside", capacity, times, 10_000)
	}
	start := func(member string) *redistest.Process {
		return child(t, "crowd", server, 6*time.Second, timesEnv+"="+strconv.Itoa(times), memberEnv+"="+member)
	}
	var threads []<-chan string
	var processes []*redistest.Process
	for n := range workers {
		threads = append(threads, work(p, fmt.Sprint("stays", n)))
		processes = append(processes, start(fmt.Sprint("go-stays", n)))
		work(victim, fmt.Sprint("goes", n))
	}
	dying := []*redistest.Process{start("go-goes0"), start("go-goes1")}
	redistest.AwaitFor(t, limit, "the dead were inside", func() bool {
		return server.CommandStats()["sadd"].Calls > int64(times) // some holders of each side, most likely
	})
	victim.dies(t)
	server.MustDo(t, "SREM", "inside", "java-goes0", "java-goes1", "java-goes2", "java-goes3") // long before their permits end
	for n, process := range dying {
		process.Kill()
		server.MustDo(t, "SREM", "inside", fmt.Sprint("go-goes", n))
	}
	awaitWorkers(t, p, threads, processes, times, limit)
	// The permits of the dead come back when they end.
	ids := p.must(t, "0", "permit-take", "crowd", capacity, 60_000)
	require.Equal(t, strconv.Itoa(capacity), p.must(t, "0", "permit-give-all", "crowd", ids))
	require.Equal(t, strconv.Itoa(capacity), server.MustDo(t, "GET", "crowd"))
	require.Empty(t, permits(t, server, "crowd"))
}

// P1: the permits held are never more than the capacity, also if holders die.
func TestPermitsAreNeverMoreThanThereAre(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) { crowd(t, release, 50, 5*time.Minute) })
}

// P1: the same, again and again.
func TestSoakPermitsAreNeverMoreThanThereAre(t *testing.T) { //nolint:paralleltest // has the machine to itself
	more, lines := locktest.Soak(t), []string{"redisson4", "redisson3"}
	for i := 0; more(); i++ {
		t.Run(strconv.Itoa(i), func(t *testing.T) { // which ends its processes
			crowd(t, lines[i%len(lines)], 300, time.Hour)
		})
	}
}

// P6: in a cluster too.
func TestEveryWaiterForPermitsIsWokenInACluster(t *testing.T) {
	t.Parallel()
	programOf(t, "redisson4")
	cluster := redistest.StartCluster(t, redistest.WithFailoverAfter(calm))
	eachRelease(t, func(t *testing.T, release string) {
		p := newClusterPeer(t, release, cluster, "auto")
		for _, kind := range permitKinds() {
			newGo := func() permitSide { return newGoPermits(t, cluster, kind, signalbox.WithLayout(redisson.Layout())) }
			newJava := func(thread string) permitSide { return javaPermits{p, thread, kind, map[string]string{}} }
			sides := map[string][2]permitSide{"java": {newJava("holder"), newJava("waiter")}, "go": {newGo(), newGo()}}
			for holder := range sides {
				for waiter := range sides {
					for round := range 3 {
						key := fmt.Sprintf("%s-%s-%s-%s-%d", kind.name, release, holder, waiter, round)
						if holder == "java" {
							p.must(t, "a", kind.name+"-found", key, 3)
						}
						from, to := sides[holder][0], sides[waiter][1]
						took(t, from.take(key, 2))
						taken := to.take(key, 2)
						redistest.Await(t, "a waiter listens", func() bool {
							return listenersOf(t, cluster, "SHARDNUMSUB", "redisson_sc:{"+key+"}") == 1
						})
						require.Empty(t, taken, "taken while there are too few")
						from.release(t, key)
						took(t, taken)
						to.release(t, key)
						require.Equal(t, "3", p.must(t, "a", kind.name+"-available", key))
					}
				}
			}
		}
	})
}
