// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"bufio"
	"context"
	"crypto/sha1" //nolint:gosec // the digest by which a server names a script, no secret
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/scripts"
)

// scriptsEnv makes a child run other versions of the lock's scripts: "next" or "older".
const scriptsEnv = "SIGNALBOX_INTEROP_SCRIPTS"

// nextScript returns the version of a script that a later release could have: a change of a comment is one, since the server
// knows a script by its text. When a script has two versions, they are the ones to compare.
func nextScript(s *scripts.Script) *scripts.Script {
	header := fmt.Sprintf("-- %s v%d\n", s.Name, s.Version)
	if !strings.Contains(s.Source, header) {
		panic(s.Name + " has no header")
	}
	next := &scripts.Script{Name: s.Name, Version: s.Version + 1}
	next.Source = strings.Replace(s.Source, header, fmt.Sprintf("-- %s v%d\n", s.Name, next.Version), 1)
	next.SHA1 = fmt.Sprintf("%x", sha1.Sum([]byte(next.Source))) //nolint:gosec // see the import
	return next
}

// withoutRecalls returns the version of a script that a client has which knows no holds that may be idle: it sends no recall.
func withoutRecalls(s *scripts.Script) *scripts.Script {
	older := nextScript(s)
	older.Source = regexp.MustCompile(`(?m)^ +recall\(.*\)\n`).ReplaceAllString(older.Source, "")
	older.SHA1 = fmt.Sprintf("%x", sha1.Sum([]byte(older.Source))) //nolint:gosec // see the import
	return older
}

// upgrade makes this process a client of another release, if it is to be one. A process has one version, since all of its
// sessions run the scripts of package scripts. It is called before the process has a session.
func upgrade() {
	version := map[string]func(*scripts.Script) *scripts.Script{"next": nextScript, "older": withoutRecalls}[os.Getenv(scriptsEnv)]
	if version == nil {
		return
	}
	for _, s := range lockScripts() {
		*s = *version(s)
	}
}

// lockScripts are those that a client of the default lock runs.
func lockScripts() []*scripts.Script {
	return []*scripts.Script{
		wire.HelloScript, proto.LockEnterScript, proto.LockPollScript, proto.LockHeartbeatScript, proto.LockKeepScript, proto.LockLeaveScript, proto.LockFreeScript, proto.LockRequeueScript,
		proto.LockForceScript, proto.LockWaitersScript, proto.HolderRenewScript,
	}
}

// runTaker acquires and releases the lock "a" as the lines of its input say.
func runTaker(stdin io.Reader, stdout io.Writer) {
	upgrade()
	ctx := context.Background()
	s, err := signalbox.Dial(ctx, os.Getenv(urlEnv))
	must(err)
	lock := fair.New(s, "a")
	var lease signalbox.Lease
	for in := bufio.NewScanner(stdin); in.Scan(); {
		if in.Text() == "lock" {
			lease, err = lock.Lock(ctx)
			must(err)
			fmt.Fprintln(stdout, "held", lease.Token())
			continue
		}
		must(lease.Unlock())
		fmt.Fprintln(stdout, "released")
	}
	must(s.Close(ctx))
}

// startTaker starts a taker of a version.
func startTaker(t *testing.T, server *redistest.Server, version string) *redistest.Process {
	t.Helper()
	return redistest.Child(t, "taker", urlEnv+"="+server.URL(), scriptsEnv+"="+version)
}

// P1, P3: the release of either version grants the lock to the waiter of the other, in the same step.
func TestVersionsOfTheScriptsHandOverToEachOther(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	session, next := locktest.SteadySession(t, server), startTaker(t, server, "next")
	lock := fair.New(session, "a")
	lease := locktest.Must(t, lock.Lock)
	for range redistest.Rounds(5, 200) {
		next.Send("lock")
		redistest.Await(t, "the next version waits", func() bool { return locktest.Tickets(t, server, "a") == 1 })
		require.NoError(t, lease.Unlock())
		require.False(t, isHeldBy(t, server, session))
		require.Zero(t, locktest.Tickets(t, server, "a"))
		token := tokenOf(t, says(t, next))
		require.Greater(t, token, lease.Token())

		taken := locktest.Queue(locktest.Context(t), t, lock.Lock)
		redistest.Await(t, "this version waits", func() bool { return locktest.Tickets(t, server, "a") == 1 })
		next.Send("unlock")
		require.Equal(t, "released", says(t, next))
		require.True(t, isHeldBy(t, server, session))
		lease = locktest.MustHave(t, taken)
		require.Greater(t, lease.Token(), token)
	}
	require.NoError(t, lease.Unlock())
	endsWell(t, next)
}

// P6: a client that sends no recall gets an idle lock all the same, long before its time is over: by the next renewal. The token
// of each use is greater, on both sides.
func TestOlderClientRecallsByTheRenewal(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "the holder learns of the waiter by its next renewal")
	require.NotEqual(t, nextScript(proto.LockEnterScript).Source, withoutRecalls(proto.LockEnterScript).Source)
	server := redistest.Start(t)
	session, older := locktest.Session(t, server), startTaker(t, server, "older")
	lock := reentrant.New(session, "a", signalbox.WithKeepWarm(time.Minute), signalbox.WithFirstLease(3*time.Second))
	token := keepIdle(t, session, lock)
	older.Send("lock")
	taken := tokenOf(t, says(t, older))
	require.Greater(t, taken, token)
	require.Zero(t, session.IdleLocks())
	older.Send("unlock")
	require.Equal(t, "released", says(t, older))
	require.Greater(t, keepIdle(t, session, lock), taken)
	endsWell(t, older)
}

// keepIdle uses the lock until the session keeps it, and returns the token of that use.
func keepIdle(t *testing.T, session *signalbox.Session, lock *reentrant.Lock) (token uint64) {
	t.Helper()
	redistest.Await(t, "an idle lock", func() bool {
		lease := locktest.Must(t, lock.Lock)
		token = lease.Token()
		_ = lease.Unlock() // which a machine that stalls for long enough has lost
		return session.IdleLocks() == 1
	})
	return token
}

// isHeldBy reports whether a session holds the lock "a", which is held.
func isHeldBy(t *testing.T, server *redistest.Server, session *signalbox.Session) bool {
	t.Helper()
	value := fmt.Sprint(server.MustDo(t, "GET", locktest.Key("a")))
	require.True(t, locktest.IsHeld(value), "the lock was not granted to the waiter")
	return value[20:42] == session.ID()
}

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
