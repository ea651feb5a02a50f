// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// runNativeWorker is runWorker in the default layout, with turns or with fair requests, beside Python.
func runNativeWorker(_ io.Reader, stdout io.Writer) {
	upgrade()
	times, client := workOf()
	ctx := context.Background()
	s, err := signalbox.Dial(ctx, os.Getenv(urlEnv))
	must(err)
	lock := reentrant.New(s, "work").Lock
	if os.Getenv(lifeEnv) == "fair" {
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

// nativeWorkers starts so many processes in Go; the first waits by fair requests.
func nativeWorkers(t *testing.T, server *redistest.Server, n, times int, more ...string) (processes []*redistest.Process) {
	t.Helper()
	for i := range n {
		env := append([]string{urlEnv + "=" + server.URL(), timesEnv + "=" + strconv.Itoa(times)}, more...)
		if i == 0 {
			env = append(env, lifeEnv+"=fair")
		}
		processes = append(processes, redistest.Child(t, "nativeworker", env...))
	}
	return processes
}

// arguments of a Python process that counts on a server.
func counts(t *testing.T, server *redistest.Server, times int) []string {
	t.Helper()
	return append([]string{strconv.Itoa(times)}, strings.Split(server.Addr(), ":")...)
}

// counted waits until workers are done, and fails the test if a count was lost.
func counted(t *testing.T, server *redistest.Server, processes []*redistest.Process) {
	t.Helper()
	sum := 0
	for _, process := range processes {
		line, err := process.ReadLine(10 * time.Minute)
		require.NoError(t, err, process.Stderr())
		n, err := strconv.Atoi(strings.TrimPrefix(line, "done "))
		require.NoError(t, err, process.Stderr())
		require.Zero(t, process.Wait(redistest.WaitLimit), process.Stderr())
		sum += n
	}
	require.Equal(t, strconv.Itoa(sum), server.MustDo(t, "GET", "counter"), "counts were lost")
	require.Zero(t, locktest.Tickets(t, server, "work"))
	require.False(t, locktest.IsHeld(fmt.Sprint(server.MustDo(t, "GET", locktest.Key("work")))))
}

// The vectors of the protocol are those of the Python client.
func TestPythonKnowsTheVectors(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), python(t), "-B", filepath.Join(pythonFolder(t), "test_vectors.py")).CombinedOutput()
	require.NoError(t, err, string(out))
}

// The client of the page is short enough to be read in one go.
func TestPythonClientIsShort(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(pythonFolder(t), "signalbox.py"))
	require.NoError(t, err)
	require.LessOrEqual(t, strings.Count(string(text), "\n"), 300, "lines")
	for line := range strings.Lines(string(text)) {
		require.LessOrEqual(t, len(line), 101, line)
	}
}

// P1, P3: three processes in Python and three in Go count by a read and a write that only the lock protects; tokens rise.
func TestPythonAndGoLoseNoCount(t *testing.T) {
	t.Parallel()
	python(t)
	server, folder := redistest.Start(t), scriptFolder(t, thisScript)
	times := redistest.Rounds(100, 10_000) / 6
	processes := nativeWorkers(t, server, 3, times+1)
	for range 3 {
		processes = append(processes, startPython(t, server.Addr(), folder, "work", counts(t, server, times+1)...))
	}
	counted(t, server, processes)
}

// P1, P3, P6: the wires of two Python processes are cut at their calls, before the server has them and after it has run them,
// and all at once. No count is lost, and nothing is left in the queue.
func TestPythonLosesNoCountByCutWires(t *testing.T) {
	t.Parallel()
	python(t)
	server, folder := redistest.Start(t), scriptFolder(t, thisScript)
	proxy := redistest.NewProxy(t, server.Addr())
	processes := nativeWorkers(t, server, 1, redistest.Rounds(50, 1000))
	for range 2 {
		processes = append(processes, startPython(t, proxy.Addr(), folder, "work", counts(t, server, 0)...))
	}
	proxy.SetMatch(redistest.Commands("EVALSHA", "EVAL"))
	kinds := []redistest.FaultKind{redistest.CutBeforeRequest, redistest.CutAfterRequest, redistest.CutAfterReply}
	for n := range redistest.Rounds(8, 100) {
		armed := proxy.Arm(redistest.Fault{Kind: kinds[n%len(kinds)], At: proxy.Requests() + 1 + n%5})
		redistest.Receive(t, "a wire is cut", armed.Fired())
		if n%4 == 3 {
			proxy.CutAll()
		}
	}
	for _, process := range processes[1:] {
		process.CloseInput()
	}
	counted(t, server, processes)
}

// P6: Python waits no longer than it says, and leaves the queue then; it hears that its lock was taken by force.
func TestPythonGivesUpAndHearsForce(t *testing.T) {
	t.Parallel()
	python(t)
	server, folder := redistest.Start(t), scriptFolder(t, thisScript)
	lock := reentrant.New(locktest.Session(t, server), "a")
	lease, err := lock.Lock(locktest.Context(t))
	require.NoError(t, err)
	for _, timeout := range []string{"0", "0.2"} {
		process := startPython(t, server.Addr(), folder, "try", "a", timeout)
		require.Equal(t, "timeout", says(t, process))
		require.Zero(t, locktest.Tickets(t, server, "a"))
		endsWell(t, process)
	}
	holder := startPython(t, server.Addr(), folder, "hold", "a", "30")
	redistest.Await(t, "Python waits", func() bool { return locktest.Tickets(t, server, "a") == 1 })
	before := lease.Token()
	require.NoError(t, lease.Unlock())
	require.Greater(t, tokenOf(t, says(t, holder)), before)
	require.NoError(t, lock.ForceUnlock(locktest.Context(t)))
	require.Equal(t, "lost", says(t, holder))
}

// tokenOf returns the token of a Python process that holds.
func tokenOf(t *testing.T, said string) uint64 {
	t.Helper()
	token, err := strconv.ParseUint(strings.TrimPrefix(said, "held "), 10, 64)
	require.NoError(t, err, said)
	return token
}
