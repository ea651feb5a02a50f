// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// nativeWorkers starts so many processes in Go, in the default layout; the first waits by fair requests.
func nativeWorkers(t *testing.T, server *redistest.Server, n, times int) (processes []*redistest.Process) {
	t.Helper()
	for i := range n {
		env := []string{urlEnv + "=" + server.URL(), timesEnv + "=" + strconv.Itoa(times)}
		if i == 0 {
			env = append(env, fairEnv+"=1")
		}
		processes = append(processes, redistest.Child(t, "worker", env...))
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
	sum := finished(t, processes, 10*time.Minute)
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

// P1, P3: three processes in Python and three in Go count by a read and a write that only the lock protects; tokens rise.
func TestPythonAndGoLoseNoCount(t *testing.T) {
	t.Parallel()
	python(t)
	server, folder := redistest.Start(t), scriptFolder(t)
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
	server, folder := redistest.Start(t), scriptFolder(t)
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
	server, folder := redistest.Start(t), scriptFolder(t)
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
