// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/scripts"
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

// runPython becomes the Python program: one process, so that to kill the child is to kill Python.
func runPython(io.Reader, io.Writer) {
	words := append([]string{os.Getenv(programEnv)}, strings.Fields(os.Getenv(argumentsEnv))...)
	err := syscall.Exec(words[0], words, os.Environ())
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// findPython returns the first Python that has redis-py, or "". Debian has it for its own Python.
var findPython = sync.OnceValue(func() string {
	for _, name := range []string{"/usr/bin/python3", "python3"} {
		path, err := exec.LookPath(name)
		if err == nil && exec.Command(path, "-c", "import redis").Run() == nil {
			return path
		}
	}
	return ""
})

// python returns a Python with redis-py, or skips the test.
func python(tb testing.TB) string {
	tb.Helper()
	path := findPython()
	if path == "" && os.Getenv("SIGNALBOX_INTEROP") == "required" {
		tb.Fatal("there is no redis-py: .ci/ensure-python installs python3-redis")
	}
	if path == "" {
		tb.Skip("there is no redis-py: .ci/ensure-python installs python3-redis")
	}
	return path
}

// pythonFolder returns the folder of the Python client.
func pythonFolder(tb testing.TB) string {
	tb.Helper()
	folder, err := filepath.Abs("python")
	require.NoError(tb, err)
	return folder
}

// scriptFolder writes the composed scripts, as the Python client loads them.
func scriptFolder(tb testing.TB) string {
	tb.Helper()
	folder := tb.TempDir()
	all, err := scripts.All()
	require.NoError(tb, err)
	for _, script := range all {
		if script.Version == 1 { // those that the page names
			file := filepath.Join(folder, script.Name+".lua")
			require.NoError(tb, os.MkdirAll(filepath.Dir(file), 0o700))
			require.NoError(tb, os.WriteFile(file, []byte(script.Source), 0o600))
		}
	}
	return folder
}

// startPython starts a Python process of a server, or of a proxy, which does what verb says; see peer.py.
func startPython(tb testing.TB, addr, folder, verb string, arguments ...string) *redistest.Process {
	tb.Helper()
	host, port, err := net.SplitHostPort(addr)
	require.NoError(tb, err)
	words := append([]string{"-B", filepath.Join(pythonFolder(tb), "peer.py"), host, port, folder, verb}, arguments...)
	return redistest.Child(tb, "python", programEnv+"="+python(tb), argumentsEnv+"="+strings.Join(words, " "))
}

// says waits for the next line of a process.
func says(tb testing.TB, process *redistest.Process) string {
	tb.Helper()
	release, err := process.ReadLine(redistest.WaitLimit) // Python that starts on a busy machine takes its time
	require.NoError(tb, err, process.Stderr())
	return release
}

// endsWell lets a process end by itself.
func endsWell(tb testing.TB, process *redistest.Process) {
	tb.Helper()
	process.CloseInput()
	require.Zero(tb, process.Wait(redistest.WaitLimit), process.Stderr())
}
