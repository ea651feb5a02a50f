// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/redlock"
	"github.com/signalbox-go/signalbox/scripts"
)

// P1, P2: a process is stopped while it votes, until what the servers granted has ended. It has no lease
// when it continues: the time is checked again after the last reply. The holder of that moment keeps the
// lock.
func TestAVoteThatAProcessSleptThroughIsNoLease(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "a process is stopped for longer than its lease")
	f := newFixture(t)
	var wires []*redistest.Proxy
	var urls []string
	for _, s := range f.servers {
		redistest.LoadScripts(t, s)
		wire := redistest.NewProxy(t, s.Addr())
		wires, urls = append(wires, wire), append(urls, "redis://"+wire.Addr())
	}
	child := redistest.Child(t, "voter", urlsEnv+"="+strings.Join(urls, " "))
	says(t, child, "ready")
	var requested atomic.Int64
	all, ended := make(chan struct{}), t.Context().Done()
	for _, wire := range wires {
		wire.SetMatch(locktest.RunsScript(scripts.RedlockAcquire))
		wire.ResetCount()
		wire.OnRequest(func(int, []string) {
			if requested.Add(1) == int64(len(wires)) {
				child.Freeze() // when all servers have been asked, and before any can reply
				close(all)
			}
			select {
			case <-all:
			case <-ended:
			}
		})
	}
	child.Send("try")
	for _, wire := range wires {
		redistest.Await(t, "the server's replies", func() bool { return wire.Replies() > 0 })
	}
	next := locktest.Must(t, redlock.New(f.process(), "a", signalbox.WithRenewedLease(patient)).Lock)
	child.Thaw()
	says(t, child, "none")
	require.NoError(t, next.Err())
	require.NoError(t, next.Unlock())
	child.CloseInput()
	require.Zero(t, child.Wait(redistest.WaitLimit), child.Stderr())
}

const (
	urlsEnv = "URLS"
	// brief is a lease that ends while a process is stopped, and patient one that does not while it
	// continues.
	brief, patient = 2 * time.Second, 10 * time.Second
)

// says reads the child's next line and fails the test if it is another.
func says(t *testing.T, p *redistest.Process, want string) {
	t.Helper()
	line, err := p.ReadLine(redistest.WaitLimit)
	require.NoError(t, err, p.Stderr())
	require.Equal(t, want, line, p.Stderr())
}

// runVoter is a process that tries to have the lock at each line that it reads, and says what came of it.
func runVoter(stdin io.Reader, stdout io.Writer) {
	ctx := context.Background()
	var sessions []*signalbox.Session
	for url := range strings.FieldsSeq(os.Getenv(urlsEnv)) {
		s, err := signalbox.Dial(ctx, url)
		if err != nil {
			fmt.Fprintln(stdout, err)
			return
		}
		sessions = append(sessions, s)
	}
	mu := redlock.New(sessions, "a", signalbox.WithFixedLease(brief))
	fmt.Fprintln(stdout, "ready")
	for in := bufio.NewScanner(stdin); in.Scan(); {
		lease, err := mu.TryLock(ctx)
		switch {
		case err != nil:
			fmt.Fprintln(os.Stderr, err)
			fmt.Fprintln(stdout, "none")
		case lease.Err() == nil:
			fmt.Fprintln(stdout, "good")
		default:
			fmt.Fprintln(stdout, "lost")
		}
	}
	for _, s := range sessions {
		_ = s.Close(ctx)
	}
}
