// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"fmt"
	"io"
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

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// The environment of a child.
const (
	programEnv   = "SIGNALBOX_INTEROP_PROGRAM"
	argumentsEnv = "SIGNALBOX_INTEROP_ARGUMENTS"
)

// runJava becomes the Java program: one process, so that to kill or to stop the child is to kill or to stop Java.
func runJava(io.Reader, io.Writer) {
	java, err := exec.LookPath("java")
	if err == nil {
		program := os.Getenv(programEnv)
		words := append([]string{
			"java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
			"-cp", filepath.Join(program, "classes") + ":" + filepath.Join(program, "lib", "*"), "signalbox.interop.Peer",
		}, strings.Fields(os.Getenv(argumentsEnv))...)
		err = syscall.Exec(java, words, os.Environ())
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// eachRelease runs a test against each release line of Redisson, at the same time.
func eachRelease(t *testing.T, run func(t *testing.T, release string)) {
	t.Helper()
	for _, release := range []string{"redisson4", "redisson3"} {
		programOf(t, release) // skips the test before it starts a server
		t.Run(release, func(t *testing.T) {
			t.Parallel()
			run(t, release)
		})
	}
}

// eachPeer runs a test with a client of each release line of Redisson, on a server of its own.
func eachPeer(t *testing.T, run func(t *testing.T, server *redistest.Server, p *peer)) {
	t.Helper()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		run(t, server, newPeer(t, release, server))
	})
}

// programOf returns the folder of the Java program for a line of Redisson, or skips the test.
func programOf(tb testing.TB, release string) string {
	tb.Helper()
	redistest.Slow(tb, "Java takes seconds to start")
	folder, err := filepath.Abs(filepath.Join("..", "..", ".bin", "interop", release))
	require.NoError(tb, err)
	_, err = os.Stat(filepath.Join(folder, "built"))
	if err != nil && os.Getenv("SIGNALBOX_INTEROP") == "required" {
		tb.Fatalf("there is no Java side: make interop builds it: %v", err)
	}
	if err != nil {
		tb.Skip("there is no Java side: make interop builds it")
	}
	return folder
}

// jvm is a Java process.
type jvm struct {
	*redistest.Process

	done chan struct{} // closed when it has ended

	mu struct {
		sync.Mutex
		sent    int
		waiting map[string]chan string
	}
}

// newJVM serves a Java process.
func newJVM(process *redistest.Process) *jvm {
	j := &jvm{Process: process, done: make(chan struct{})}
	j.mu.waiting = map[string]chan string{"0": make(chan string, 1)}
	return j
}

// environment is what a Java process of a line of Redisson is started with.
func environment(tb testing.TB, release string, arguments ...string) []string {
	tb.Helper()
	return []string{programEnv + "=" + programOf(tb, release), argumentsEnv + "=" + strings.Join(arguments, " ")}
}

// shared has the Java process of each line of Redisson whose clients the tests use: to start one takes seconds.
var shared struct {
	sync.Mutex
	jvms    map[string]*jvm
	clients int
}

// sharedJVM returns the Java process of a line, and the name of a new client there.
func sharedJVM(tb testing.TB, release string) (*jvm, string) {
	tb.Helper()
	env := environment(tb, release)
	shared.Lock()
	defer shared.Unlock()
	if shared.jvms == nil {
		shared.jvms = make(map[string]*jvm)
	}
	if shared.jvms[release] == nil {
		process, err := redistest.StartChild("java", env...)
		require.NoError(tb, err)
		shared.jvms[release] = newJVM(process)
		go shared.jvms[release].read()
	}
	shared.clients++
	return shared.jvms[release], "c" + strconv.Itoa(shared.clients) + "/"
}

// withJava are tests whose shared Java processes end with them.
type withJava struct{ redistest.Tests }

// Run implements redistest.Tests.
func (w withJava) Run() int {
	defer func() {
		for _, j := range shared.jvms {
			j.Close()
			<-j.done
		}
	}()
	return w.Tests.Run()
}

// peer is a Redisson client in a Java process. To other processes each client is a holder of its own.
type peer struct {
	*jvm

	id    string // the id of the client in the keys of locks
	name  string // the prefix of the names of its threads
	proxy *redistest.Proxy
}

// watchdog is how long the locks live that a peer renews. It renews them each third of it; the rest is for a JVM that has to wait
// for a processor.
const watchdog = 6 * time.Second

// single are the arguments of a client of a server.
func single(addr string) []string {
	return []string{"single", "redis://" + addr, strconv.FormatInt(watchdog.Milliseconds(), 10)}
}

// newPeer opens a client of a server.
func newPeer(tb testing.TB, release string, server *redistest.Server) *peer {
	tb.Helper()
	return startPeer(tb, release, single(server.Addr())...)
}

// newMortal opens one that can die.
func newMortal(tb testing.TB, release string, server *redistest.Server, more ...string) *peer {
	tb.Helper()
	proxy := redistest.NewProxy(tb, server.Addr())
	p := startPeer(tb, release, append(single(proxy.Addr()), more...)...)
	p.proxy = proxy
	return p
}

// dies ends a client at once, as if its process were killed: its connections end, and it says nothing more.
func (p *peer) dies(tb testing.TB) {
	tb.Helper()
	p.proxy.Refuse()
	p.proxy.CutAll()
	redistest.Await(tb, "the end of its connections", func() bool { return p.proxy.Connections() == 0 })
}

// newClusterPeer opens one of a cluster, which publishes on channels of that mode.
func newClusterPeer(tb testing.TB, release string, cluster *redistest.Cluster, mode string) *peer {
	tb.Helper()
	return startPeer(tb, release, "cluster", "redis://"+cluster.Servers()[0].Addr(), strconv.FormatInt(watchdog.Milliseconds(), 10), mode)
}

// startPeer opens a client in the shared Java process.
func startPeer(tb testing.TB, release string, arguments ...string) *peer {
	tb.Helper()
	j, name := sharedJVM(tb, release)
	p := &peer{jvm: j, name: name}
	words := make([]any, len(arguments))
	for i, word := range arguments {
		words[i] = word
	}
	p.id = p.must(tb, "client", "open", words...)
	tb.Cleanup(func() { p.must(tb, "client", "close") }) // before another server has the port of this one
	return p
}

// newProcess starts a Java process with one client of a server.
func newProcess(tb testing.TB, release string, server *redistest.Server) *peer {
	tb.Helper()
	p := &peer{jvm: newJVM(redistest.Child(tb, "java", environment(tb, release, single(server.Addr())...)...))}
	hello := p.mu.waiting["0"]
	go p.read()
	tb.Cleanup(func() {
		p.Kill()
		<-p.done
	})
	p.id = p.take(tb, hello)
	return p
}

// read hands out the replies until there are no more.
func (j *jvm) read() {
	defer close(j.done)
	for {
		line, err := j.ReadLine(time.Hour)
		if err != nil {
			return
		}
		number, reply, _ := strings.Cut(line, " ")
		j.mu.Lock()
		waiting := j.mu.waiting[number]
		delete(j.mu.waiting, number)
		j.mu.Unlock()
		if waiting != nil {
			waiting <- reply
		}
	}
}

// send makes a thread do something. Its reply arrives on the channel: "ok value" or "error what".
func (p *peer) send(thread, verb string, arguments ...any) <-chan string {
	reply := make(chan string, 1)
	p.mu.Lock()
	p.mu.sent++
	number := strconv.Itoa(p.mu.sent)
	p.mu.waiting[number] = reply
	p.mu.Unlock()
	p.Send(strings.TrimSpace(fmt.Sprintln(append([]any{number, p.name + thread, verb}, arguments...)...)))
	return reply
}

// take waits for a reply, which must be ok, and returns its value.
func (p *peer) take(tb testing.TB, reply <-chan string) string {
	tb.Helper()
	late := time.NewTimer(6 * redistest.Patience) // a JVM that starts on a busy machine takes its time
	defer late.Stop()
	select {
	case text := <-reply:
		value, ok := strings.CutPrefix(text, "ok ")
		require.True(tb, ok, "%s\n%s", text, p.Stderr())
		return value
	case <-p.done:
		tb.Fatalf("the Java process ended; it said:\n%s", p.Stderr())
	case <-late.C:
		tb.Fatalf("no reply of the Java process; it said:\n%s", p.Stderr())
	}
	return ""
}

// refused waits for a reply, which must be an error, and returns its text.
func refused(t *testing.T, reply <-chan string) string {
	t.Helper()
	text := redistest.Receive(t, "a reply", reply)
	why, isError := strings.CutPrefix(text, "error ")
	require.True(t, isError, text)
	return why
}

// must makes a thread do something, waits until it is done, and returns its value.
func (p *peer) must(tb testing.TB, thread, verb string, arguments ...any) string {
	tb.Helper()
	return p.take(tb, p.send(thread, verb, arguments...))
}

// owner returns the field by which a thread of the peer holds locks.
func (p *peer) owner(tb testing.TB, thread string) string {
	tb.Helper()
	return p.id + ":" + p.must(tb, thread, "thread")
}
