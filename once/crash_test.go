// SPDX-License-Identifier: Apache-2.0

package once_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/once"
	"github.com/signalbox-go/signalbox/scripts"
)

// urlVariable is the environment variable with the server's URL for a child.
const urlVariable = "ONCE_TEST_URL"

// runRunner is a process that calls Do. Its function says "runs", and returns the next line that the
// process reads.
func runRunner(stdin io.Reader, stdout io.Writer) {
	ctx := context.Background()
	s, err := signalbox.Dial(ctx, os.Getenv(urlVariable))
	if err != nil {
		fmt.Fprintln(stdout, err)
		return
	}
	lines := bufio.NewScanner(stdin)
	value, ran, err := once.New(s, "a").Do(ctx, func(context.Context, signalbox.Lease) ([]byte, error) {
		fmt.Fprintln(stdout, "runs")
		lines.Scan()
		return lines.Bytes(), nil
	})
	fmt.Fprintln(stdout, string(value), ran, err)
	lines.Scan()
}

// nextLine returns the next line of a child.
func nextLine(t *testing.T, p *redistest.Process) string {
	t.Helper()
	line, err := p.ReadLine(redistest.WaitLimit)
	require.NoError(t, err, p.Stderr())
	return line
}

// O1: a process that is killed before its outcome is stored leaves no outcome, and the next caller runs
// its function; one that is killed after that leaves the outcome.
func TestAKillBeforeTheStoreLetsTheNextRun(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault  redistest.FaultKind // the fault of the store; 0 kills the process while the function runs
		stored bool
	}{
		"WhileItRuns": {0, false},
		"AfterItRan":  {redistest.SwallowRequest, false},
		"AfterStore":  {redistest.SwallowReply, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			redistest.LoadScripts(t, server)
			proxy := redistest.NewProxy(t, server.Addr())
			proxy.SetMatch(locktest.RunsScript(scripts.OnceStore))
			process := redistest.Child(t, "runner", urlVariable+"="+proxy.URL())
			require.Equal(t, "runs", nextLine(t, process))
			s := session(t, server)
			waiting := later(t.Context(), once.New(s, "a"), returns("next"))
			awaitTickets(t, server, 1)
			redistest.Await(t, "a listener", func() bool { return locktest.Listeners(t, server, key+":stored") == 1 })
			if c.fault != 0 {
				struck := proxy.Arm(redistest.Fault{Kind: c.fault})
				process.Send("first")
				redistest.Receive(t, "the store", struck.Fired())
			}
			process.Kill()
			if c.stored {
				requireStored(t, "first", receive(t, waiting)) // by message: the claim is still there
				return
			}
			require.NoError(t, fair.New(s, "a").ForceUnlock(t.Context())) // or wait for the end of the lease
			requireRan(t, "next", receive(t, waiting))
			requireStored(t, "next", do(t.Context(), once.New(s, "a"), never(t)))
		})
	}
}

// P2: a process that was stopped past its claim learns that it was late, and gets the outcome of the next.
func TestAStoppedProcessStoresNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	process := redistest.Child(t, "runner", urlVariable+"="+server.URL())
	require.Equal(t, "runs", nextLine(t, process))
	process.Freeze()
	s := session(t, server)
	require.NoError(t, fair.New(s, "a").ForceUnlock(t.Context()))
	requireRan(t, "next", do(t.Context(), once.New(s, "a"), returns("next")))
	process.Send("first")
	process.Thaw()
	line := nextLine(t, process)
	require.Contains(t, line, "next true ")
	require.Contains(t, line, signalbox.ErrStale.Error())
}

// Five processes, and one of them runs.
func TestOneOfFiveProcessesRuns(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	all := make([]*redistest.Process, 5)
	for i := range all {
		all[i] = redistest.Child(t, "runner", urlVariable+"="+server.URL())
	}
	awaitTickets(t, server, len(all)-1)
	for i, p := range all {
		p.Send(fmt.Sprint(i))
	}
	ran := 0
	values := make(map[string]bool)
	for _, p := range all {
		line := nextLine(t, p)
		if line == "runs" {
			ran++
			line = nextLine(t, p)
			require.Regexp(t, `^\d true <nil>$`, line)
		} else {
			require.Regexp(t, `^\d false <nil>$`, line)
		}
		values[line[:1]] = true
	}
	require.Equal(t, 1, ran)
	require.Len(t, values, 1)
}
