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

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
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
