// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/inspect"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/semaphore"
)

// runHolder acquires the lock "a", says so, and holds it until its input ends. It replies to each line with
// the state of its lease, and with what Unlock returned if the line asks for a release.
func runHolder(stdin io.Reader, stdout io.Writer) {
	s := dial()
	lease, err := reentrant.New(s, "a").Lock(context.Background())
	must(err)
	fmt.Fprintln(stdout, "held")
	for in := bufio.NewScanner(stdin); in.Scan(); {
		fmt.Fprintf(stdout, "lost %t, reported by Unlock %t\n", errors.Is(lease.Err(), signalbox.ErrLost), errors.Is(lease.Unlock(), signalbox.ErrLost))
	}
}

// holds starts a process in Go that holds the lock "a", and renews it for as long as it lives.
func holds(t *testing.T, server *redistest.Server) *redistest.Process {
	t.Helper()
	holder := child(t, "holder", server, 5*time.Second)
	said, err := holder.ReadLine(redistest.WaitLimit)
	require.NoError(t, err, holder.Stderr())
	require.Equal(t, "held", said)
	return holder
}

// now returns the server's time in milliseconds; its clock is this machine's.
func now() int64 { return time.Now().UnixMilli() }

// renewed waits until a key lives longer than it did.
func renewed(t *testing.T, server *redistest.Server, key string) {
	t.Helper()
	before := redistest.EndOf(t, server, key)
	redistest.Await(t, key+" is renewed", func() bool { return redistest.EndOf(t, server, key) > before })
}

// P1, P6: a lock whose holder in Java was killed goes to Go when it ends, and not before.
func TestALockOfADeadJavaProcessGoesToGo(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p, g := newProcess(t, release, server), newGoSide(t, server, byLock)
		p.must(t, "a", "lock", "a", -1)
		taken := g.take("a")
		awaitListeners(t, server, "a", 1)
		renewed(t, server, "a")
		p.Kill()
		last := redistest.EndOf(t, server, "a")
		took(t, taken)
		require.GreaterOrEqual(t, now(), last)
		g.release(t, "a")
		awaitNothing(t, server)
	})
}

// P1, P2: a process in Go that was stopped past its lease knows that at its first check, and leaves alone what Java has since.
func TestAStoppedGoProcessLeavesJavaAlone(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p, holder := newPeer(t, release, server), holds(t, server)
		holder.Freeze()
		p.must(t, "a", "lock", "a", time.Hour.Milliseconds())
		has, until := hash(t, server, "a"), redistest.EndOf(t, server, "a")
		require.Equal(t, map[string]string{p.owner(t, "a"): "1"}, has)
		holder.Thaw()
		holder.Send("how is it?")
		said, err := holder.ReadLine(redistest.WaitLimit)
		require.NoError(t, err, holder.Stderr())
		require.Equal(t, "lost true, reported by Unlock true", said)
		require.Equal(t, has, hash(t, server, "a"))
		require.Equal(t, until, redistest.EndOf(t, server, "a"))
		p.must(t, "a", "unlock", "a")
	})
}

// counter is the key of the tokens of the lock "a".
const counter = "redisson_lock_token:{a}"

// fenced returns the lock "a" of a session of its own, as RFencedLock has it.
func fenced(t *testing.T, to clients, options ...signalbox.LockOption) *reentrant.Lock {
	t.Helper()
	return reentrant.New(locktest.Session(t, to), "a", append(options, signalbox.WithLayout(redisson.Layout(redisson.Fenced)))...)
}

func TestJavaReturnsTheCounterAsTokenOfAnyHolder(t *testing.T) {
	t.Parallel()
	eachPeer(t, func(t *testing.T, server *redistest.Server, p *peer) {
		server.MustDo(t, "SET", counter, "41")
		require.Equal(t, "42", p.must(t, "a", "fence-try", "a", 0, 60_000))
		require.Equal(t, "null", p.must(t, "b", "fence-try", "a", 0, 60_000))
		require.Equal(t, "42", p.must(t, "b", "fence-token", "a"), "who does not get it counts nothing")
		p.must(t, "a", "unlock", "a")
		require.Equal(t, "42", p.must(t, "a", "fence-token", "a"), "for any caller and any holder")
	})
}

// P3: one sequence of tokens without a gap, whichever side takes the lock.
func TestJavaAndGoHaveOneSequenceOfTokens(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p, mu := newPeer(t, release, server), fenced(t, server)
		for token := uint64(1); token < 50; token += 2 {
			lease, err := mu.Lock(locktest.Context(t))
			require.NoError(t, err)
			require.Equal(t, token, lease.Token())
			require.Equal(t, strconv.FormatUint(token, 10), p.must(t, "a", "fence-token", "a"))
			require.Equal(t, "null", p.must(t, "a", "fence-try", "a", 0, 60_000))
			taken := p.send("a", "fence", "a", 60_000)
			awaitListeners(t, server, "a", 1)
			require.NoError(t, lease.Unlock())
			require.Equal(t, strconv.FormatUint(token+1, 10), p.take(t, taken))
			p.must(t, "a", "unlock", "a")
		}
		p.must(t, "a", "lock", "a", 60_000)
		require.Equal(t, "50", server.MustDo(t, "GET", counter), "who takes it without a token does not count")
		require.Equal(t, int64(-1), server.MustDo(t, "PTTL", counter), "it never ends")
	})
}

// P3: the holder after a holder that died has a greater token, on either side.
func TestTokensRiseAfterADeath(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p, mu := newMortal(t, release, server), fenced(t, server, signalbox.WithRenewedLease(5*time.Second))
		require.Equal(t, "1", p.must(t, "a", "fence", "a", -1))
		p.dies(t)
		lease, err := mu.Lock(locktest.Context(t))
		require.NoError(t, err)
		require.Equal(t, uint64(2), lease.Token())
		require.NoError(t, lease.Unlock())

		other := fenced(t, server, signalbox.WithFixedLease(time.Second))
		lost, err := other.Lock(locktest.Context(t))
		require.NoError(t, err)
		redistest.Receive(t, "the end of the lease", lost.Done())
		q := newPeer(t, release, server)
		require.Equal(t, strconv.FormatUint(lost.Token()+1, 10), q.must(t, "a", "fence", "a", 60_000))
	})
}

// P1, P2: Break ends the permits of both sides, and a waiter in Java acquires them. Both sides count the same then, and
// a release that comes late adds nothing.
func TestPermitsOfBothSidesAreBroken(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p, g, operator := newPeer(t, release, server), newSession(t, server), newSession(t, server)
		require.Equal(t, "true", p.must(t, "a", "permit-found", "a", 4))
		java := p.must(t, "a", "permit-take", "a", 1, 60_000)
		sem := semaphore.New(g, "a", 4)
		lease, err := sem.Acquire(locktest.Context(t), 3)
		require.NoError(t, err)
		waiter := p.send("b", "permit-take", "a", 3, time.Hour.Milliseconds())
		redistest.Await(t, "a waiter", func() bool { return locktest.Listeners(t, server, "redisson_sc:{a}") == 1 })
		require.NoError(t, inspect.Break(locktest.Context(t), operator, "a"))
		ids := p.take(t, waiter)
		redistest.Receive(t, "the loss", lease.Done())
		require.ErrorIs(t, lease.Err(), signalbox.ErrLost)
		require.Equal(t, "false", p.must(t, "a", "permit-give", "a", java))
		require.ErrorIs(t, lease.Unlock(), signalbox.ErrLost)
		require.Equal(t, []string{"1", "3", "4"}, []string{
			p.must(t, "a", "permit-available", "a"), p.must(t, "a", "permit-acquired", "a"), p.must(t, "a", "permit-capacity", "a"),
		})
		free, err := sem.Available(locktest.Context(t))
		require.NoError(t, err)
		require.Equal(t, 1, free)
		require.Equal(t, "3", p.must(t, "a", "permit-give-all", "a", ids))
		require.Equal(t, "4", p.must(t, "a", "permit-available", "a"))
		requireKeys(t, server, "a")
	})
}

// The page on the Java client names tests that there are.
func TestThePageNamesTests(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/redisson-protocol.md")
	require.NoError(t, err)
	files, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	var sources strings.Builder
	for _, file := range files {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		sources.Write(source)
	}
	for _, name := range regexp.MustCompile(`Test\w+`).FindAllString(string(page), -1) {
		require.Contains(t, sources.String(), "func "+name+"(")
	}
}

// The environment of a worker.
const (
	urlEnv   = "SIGNALBOX_INTEROP_URL"
	timesEnv = "SIGNALBOX_INTEROP_TIMES"
	lifeEnv  = "SIGNALBOX_INTEROP_LIFE"
	fairEnv  = "SIGNALBOX_INTEROP_FAIR"
)

// workers is how many there are on either side: threads of one Java process, and processes in Go.
const workers = 4

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// dial opens the session of a child, in the layout of Redisson if its leases are to have a length.
func dial() *signalbox.Session {
	var options []signalbox.SessionOption
	if text := os.Getenv(lifeEnv); text != "" {
		life, err := time.ParseDuration(text)
		must(err)
		options = append(options, signalbox.WithDefaults(signalbox.WithLayout(redisson.Layout()), signalbox.WithRenewedLease(life)))
	}
	s, err := signalbox.Dial(context.Background(), os.Getenv(urlEnv), options...)
	must(err)
	return s
}

// child runs a function of this program, which uses a server, in a process of its own.
func child(t *testing.T, name string, server *redistest.Server, life time.Duration, env ...string) *redistest.Process {
	t.Helper()
	return redistest.Child(t, name, append(env, urlEnv+"="+server.URL(), lifeEnv+"="+life.String())...)
}

// runWorker adds one to a counter many times, each time under the lock, by a read and a write that nothing else protects. P3: its tokens
// are greater than those of all processes in Go before.
func runWorker(_ io.Reader, stdout io.Writer) {
	times, client := workOf()
	s, ctx := dial(), context.Background()
	lock := reentrant.New(s, "work").Lock
	if os.Getenv(fairEnv) != "" {
		lock = fair.New(s, "work").Lock
	}
	for range times {
		lease, err := lock(ctx)
		must(err)
		must(addOne(ctx, client, lease.Token()))
		must(lease.Unlock())
	}
	must(s.Close(ctx))
	client.Close()
	fmt.Fprintln(stdout, "done", times)
}

// workOf returns how often a worker is to count, and a client to count by.
func workOf() (times int, client rueidis.Client) {
	times, err := strconv.Atoi(os.Getenv(timesEnv))
	must(err)
	option, err := rueidis.ParseURL(os.Getenv(urlEnv))
	must(err)
	signalbox.Tune(&option)
	client, err = rueidis.NewClient(option)
	must(err)
	return times, client
}

// addOne adds one to the counter. P3: token is greater than those of all processes in Go before.
func addOne(ctx context.Context, client rueidis.Client, token uint64) error {
	latest, err := client.Do(ctx, client.B().Get().Key("token").Build()).AsUint64()
	if err != nil && !rueidis.IsRedisNil(err) {
		return err
	}
	if token <= latest {
		return fmt.Errorf("token %d after %d of whatever process", token, latest)
	}
	if err := client.Do(ctx, client.B().Set().Key("token").Value(strconv.FormatUint(token, 10)).Build()).Error(); err != nil {
		return err
	}
	count, err := client.Do(ctx, client.B().Get().Key("counter").Build()).AsInt64()
	if err != nil && !rueidis.IsRedisNil(err) {
		return err
	}
	return client.Do(ctx, client.B().Set().Key("counter").Value(strconv.FormatInt(count+1, 10)).Build()).Error()
}

// count makes all workers of both sides count together, each so many times, and fails the test if a count is lost.
func count(t *testing.T, release string, times int, limit time.Duration) {
	t.Helper()
	server := redistest.Start(t)
	p := newPeer(t, release, server)
	var threads []<-chan string
	var processes []*redistest.Process
	for n := range workers {
		threads = append(threads, p.send(strconv.Itoa(n), "work", "work", "counter", times))
		processes = append(processes, child(t, "worker", server, 30*time.Second, timesEnv+"="+strconv.Itoa(times)))
	}
	for _, reply := range threads {
		require.Equal(t, "ok "+strconv.Itoa(times), redistest.ReceiveFor(t, limit, "the end of a thread", reply))
	}
	require.Equal(t, workers*times, finished(t, processes, limit))
	require.Equal(t, strconv.Itoa(2*workers*times), server.MustDo(t, "GET", "counter"), "counts were lost")
	server.MustDo(t, "DEL", "counter", "token")
	awaitNothing(t, server)
}

// finished waits until workers are done, and returns how often they counted.
func finished(t *testing.T, processes []*redistest.Process, limit time.Duration) (sum int) {
	t.Helper()
	for _, process := range processes {
		line, err := process.ReadLine(limit)
		require.NoError(t, err, process.Stderr())
		n, err := strconv.Atoi(strings.TrimPrefix(line, "done "))
		require.NoError(t, err, process.Stderr())
		require.Zero(t, process.Wait(redistest.WaitLimit), process.Stderr())
		sum += n
	}
	return sum
}

// P1: no update is lost that either side makes under the lock.
func TestNoCountIsLost(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) { count(t, release, 100, 5*time.Minute) })
}

// P1: the same, again and again: some 50,000 times in a minute.
func TestSoakNoCountIsLost(t *testing.T) { //nolint:paralleltest // has the machine to itself
	more, lines := locktest.Soak(t), []string{"redisson4", "redisson3"}
	for i := 0; more(); i++ {
		t.Run(strconv.Itoa(i), func(t *testing.T) { // which ends its processes
			count(t, lines[i%len(lines)], 625, time.Hour)
		})
	}
}
