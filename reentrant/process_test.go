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
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// urlVariable tells a child where the server is.
const urlVariable = "REENTRANT_TEST_URL"

// processLease is short, so that a process that has died is soon forgotten.
const processLease = steady

// runHolder is a process that does what it is told, a word a line: lock, keep (a lock with a lease
// that no test outlives), err, wait (for the end of the lease), unlock. It answers each with a
// line.
func runHolder(stdin io.Reader, stdout io.Writer) {
	ctx := context.Background()
	s, err := signalbox.Dial(ctx, os.Getenv(urlVariable))
	if err != nil {
		fmt.Fprintln(stdout, err)
		return
	}
	mu := reentrant.New(s, "a", signalbox.RenewedLease(processLease))
	var lease signalbox.Lease
	for words := bufio.NewScanner(stdin); words.Scan(); {
		switch words.Text() {
		case "lock":
			lease, err = mu.Lock(ctx)
			fmt.Fprintln(stdout, lease.Token(), err)
		case "keep":
			lease, err = reentrant.New(s, "a", signalbox.RenewedLease(longest)).Lock(ctx)
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

// tell gives a child a word and answers its line.
func tell(t *testing.T, p *redistest.Process, word string) string {
	t.Helper()
	p.Send(word)
	line, err := p.ReadLine(patience)
	require.NoError(t, err, p.Stderr())
	return line
}

// tellLock lets a child lock, and answers the token.
func tellLock(t *testing.T, p *redistest.Process) uint64 {
	t.Helper()
	var token uint64
	line := tell(t, p, "lock")
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
			token := tellLock(t, process)
			require.Greater(t, token, last)
			last = token
			require.Equal(t, "<nil>", tell(t, process, "unlock"))
		}
	}
}

// P1, P6: the lock of a process that was killed goes to a waiter when its key ends.
func TestTheLockOfAKilledProcessPassesToAWaiter(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	process := redistest.Child(t, "holder", urlVariable+"="+server.URL())
	token := tellLock(t, process)
	waiting := contend(t.Context(), t, server, reentrant.New(newSession(t, server), "a"), "a")
	process.Kill()
	killed := time.Now()
	left := integer(t, server.MustDo(t, "PTTL", holderKey("a")))
	got := within(t, "the lock of the dead", waiting)
	require.NoError(t, got.err)
	require.Greater(t, got.lease.Token(), token)
	require.GreaterOrEqual(t, time.Since(killed)+5*time.Millisecond, time.Duration(left)*time.Millisecond)
	require.NoError(t, got.lease.Unlock())
}

// P2: a process that was stopped past its lease learns of it at its first look.
func TestAStoppedProcessLearnsOfItsLossAtTheFirstLook(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	process := redistest.Child(t, "holder", urlVariable+"="+server.URL())
	token := tellLock(t, process)
	require.Equal(t, "<nil>", tell(t, process, "err"))
	process.Freeze()
	next := mustLock(t, reentrant.New(newSession(t, server), "a"))
	require.Greater(t, next.Token(), token)
	process.Thaw()
	require.Equal(t, signalbox.ErrLost.Error(), tell(t, process, "err"))
	require.Equal(t, signalbox.ErrLost.Error(), tell(t, process, "unlock"))
	require.NoError(t, next.Err()) // P8: the late unlock touched nothing
	require.True(t, isHeld(t, server, "a"))
	require.NoError(t, next.Unlock())
}
