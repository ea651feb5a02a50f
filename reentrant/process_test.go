// SPDX-License-Identifier: Apache-2.0

package reentrant_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// urlVariable is the environment variable with the server's URL for a child.
const urlVariable = "REENTRANT_TEST_URL"

// processLease is short, for the test that stops a process for longer. It lives though the machine
// stalls for seconds: it is renewed each two, and has four left then.
const processLease = 6 * time.Second

// runHolder is a process that obeys commands, a word on each line: lock, keep (a lock with a lease that no
// test outlives), err, wait (for the end of the lease), unlock. It replies to each with a line.
func runHolder(stdin io.Reader, stdout io.Writer) {
	ctx := context.Background()
	s, err := signalbox.Dial(ctx, os.Getenv(urlVariable))
	if err != nil {
		fmt.Fprintln(stdout, err)
		return
	}
	mu := reentrant.New(s, "a", signalbox.WithRenewedLease(processLease))
	var lease signalbox.Lease
	for words := bufio.NewScanner(stdin); words.Scan(); {
		switch words.Text() {
		case "lock":
			lease, err = mu.Lock(ctx)
			fmt.Fprintln(stdout, lease.Token(), err)
		case "keep":
			lease, err = reentrant.New(s, "a", signalbox.WithRenewedLease(longest)).Lock(ctx)
			fmt.Fprintln(stdout, lease.Token(), err)
		case "wait":
			<-lease.Done()
			fmt.Fprintln(stdout, lease.Err())
		case "err":
			fmt.Fprintln(stdout, lease.Err())
		case "unlock":
			fmt.Fprintln(stdout, lease.Unlock())
		}
	}
}

// command sends a word to a child and returns its reply.
func command(t *testing.T, p *redistest.Process, word string) string {
	t.Helper()
	p.Send(word)
	line, err := p.ReadLine(redistest.WaitLimit)
	require.NoError(t, err, p.Stderr())
	return line
}

// commandLock makes a child lock, and returns the token.
func commandLock(t *testing.T, p *redistest.Process) uint64 {
	t.Helper()
	var token uint64
	line := command(t, p, "lock")
	_, err := fmt.Sscanf(line, "%d <nil>", &token)
	require.NoError(t, err, line)
	return token
}

// P3: tokens rise from process to process.
func TestTokensRiseAcrossProcesses(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	one := redistest.Child(t, "holder", urlVariable+"="+server.URL())
	other := redistest.Child(t, "holder", urlVariable+"="+server.URL())
	var last uint64
	for range 5 {
		for _, process := range []*redistest.Process{one, other} {
			token := commandLock(t, process)
			require.Greater(t, token, last)
			last = token
			require.Equal(t, "<nil>", command(t, process, "unlock"))
		}
	}
}

// P2: a process that was stopped past its lease learns of it when it runs again.
func TestAStoppedProcessLearnsOfItsLossAtTheFirstCheck(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "a process is stopped for longer than its lease")
	server := redistest.Start(t)
	process := redistest.Child(t, "holder", urlVariable+"="+server.URL())
	token := commandLock(t, process)
	require.Equal(t, "<nil>", command(t, process, "err"))
	process.Freeze()
	next := locktest.Must(t, reentrant.New(locktest.SteadySession(t, server), "a").Lock)
	require.Greater(t, next.Token(), token)
	process.Thaw()
	require.Contains(t, command(t, process, "err"), signalbox.ErrLost.Error())
	require.Contains(t, command(t, process, "unlock"), signalbox.ErrLost.Error())
	require.NoError(t, next.Err()) // P8: the late unlock touched nothing
	require.True(t, isHeld(t, server, "a"))
	require.NoError(t, next.Unlock())
}

// P1, P6: a process that was killed keeps its lock until its key ends. Then, or here by force, a
// waiter has it.
func TestTheLockOfAKilledProcessPassesToAWaiter(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	process := redistest.Child(t, "holder", urlVariable+"="+server.URL())
	require.Regexp(t, `^\d+ <nil>$`, command(t, process, "keep"))
	mu := reentrant.New(locktest.SteadySession(t, server), "a")
	dead := requireHolder(t, mu)
	waiting := locktest.Enqueue(t.Context(), t, server, "a", mu.Lock)
	process.Kill()
	require.Positive(t, server.MustDo(t, "PTTL", locktest.Key("a")))
	still := requireHolder(t, mu)
	still.Until = dead.Until // the mark was written meanwhile, which may lengthen a hold by a millisecond
	require.Equal(t, dead, still)
	require.NoError(t, mu.ForceUnlock(t.Context()))
	lease := locktest.MustHave(t, waiting)
	require.Greater(t, lease.Token(), dead.Token)
	require.NoError(t, lease.Unlock())
}
