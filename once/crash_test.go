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
