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

	"github.com/signalbox-go/signalbox/internal/locktest"
	"github.com/signalbox-go/signalbox/internal/redistest"
)

// What a child is told by its environment.
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
			"java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx128m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
			"-cp", filepath.Join(program, "classes") + ":" + filepath.Join(program, "lib", "*"), "signalbox.interop.Peer",
		}, strings.Fields(os.Getenv(argumentsEnv))...)
		err = syscall.Exec(java, words, os.Environ())
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// eachLine runs a test against each line of Redisson, at the same time.
func eachLine(t *testing.T, run func(t *testing.T, line string)) {
	t.Helper()
	for _, line := range []string{"redisson4", "redisson3"} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			run(t, line)
		})
	}
}

// programOf answers the folder of the Java program for a line of Redisson, or skips the test.
func programOf(tb testing.TB, line string) string {
	tb.Helper()
	folder, err := filepath.Abs(filepath.Join("..", "..", ".bin", "interop", line))
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

// peer is a Java process with one Redisson client.
type peer struct {
	*redistest.Process

	id   string // the client's, as it stands in locks
	done chan struct{}

	mu struct {
		sync.Mutex
		sent    int
		waiting map[string]chan string
	}
}

// watchdog is how long the locks live that a peer renews. It renews them each third of it; the rest is for a JVM that has to wait
// for a processor.
const watchdog = 6 * time.Second

// newPeer starts a Java process that uses a server.
func newPeer(tb testing.TB, line string, server *redistest.Server) *peer {
	tb.Helper()
	return startPeer(tb, line, "single", "redis://"+server.Addr(), strconv.FormatInt(watchdog.Milliseconds(), 10))
}

// newClusterPeer starts one that uses a cluster, and tells by channels of that mode.
func newClusterPeer(tb testing.TB, line string, cluster *redistest.Cluster, mode string) *peer {
	tb.Helper()
	return startPeer(tb, line, "cluster", "redis://"+cluster.Servers()[0].Addr(), strconv.FormatInt(watchdog.Milliseconds(), 10), mode)
}

func startPeer(tb testing.TB, line string, arguments ...string) *peer {
	tb.Helper()
	program := programOf(tb, line)
	p := &peer{done: make(chan struct{})}
	p.Process = redistest.Child(tb, "java", programEnv+"="+program, argumentsEnv+"="+strings.Join(arguments, " "))
	p.mu.waiting = map[string]chan string{"0": make(chan string, 1)}
	hello := p.mu.waiting["0"]
	go p.read()
	tb.Cleanup(func() {
		p.Kill()
		<-p.done
	})
	p.id = p.take(tb, hello)
	return p
}

// read hands the answers out until there are no more.
func (p *peer) read() {
	defer close(p.done)
	for {
		line, err := p.ReadLine(time.Hour)
		if err != nil {
			return
		}
		number, answer, _ := strings.Cut(line, " ")
		p.mu.Lock()
		waiting := p.mu.waiting[number]
		delete(p.mu.waiting, number)
		p.mu.Unlock()
		if waiting != nil {
			waiting <- answer
		}
	}
}

// ask lets a thread do something, and answers where its answer will be: "ok value" or "error what".
func (p *peer) ask(thread, verb string, arguments ...any) <-chan string {
	answer := make(chan string, 1)
	p.mu.Lock()
	p.mu.sent++
	number := strconv.Itoa(p.mu.sent)
	p.mu.waiting[number] = answer
	p.mu.Unlock()
	p.Send(strings.TrimSpace(fmt.Sprintln(append([]any{number, thread, verb}, arguments...)...)))
	return answer
}

// take waits for an answer, which must be ok, and answers its value.
func (p *peer) take(tb testing.TB, answer <-chan string) string {
	tb.Helper()
	late := time.NewTimer(6 * redistest.Patience) // a JVM that starts on a busy machine takes its time
	defer late.Stop()
	select {
	case text := <-answer:
		value, ok := strings.CutPrefix(text, "ok ")
		require.True(tb, ok, "%s\n%s", text, p.Stderr())
		return value
	case <-p.done:
		tb.Fatalf("the Java process ended; it said:\n%s", p.Stderr())
	case <-late.C:
		tb.Fatalf("no answer of the Java process; it said:\n%s", p.Stderr())
	}
	return ""
}

// refused waits for an answer, which must be an error, and answers what it says.
func refused(t *testing.T, answer <-chan string) string {
	t.Helper()
	select {
	case text := <-answer:
		why, isError := strings.CutPrefix(text, "error ")
		require.True(t, isError, text)
		return why
	case <-locktest.Context(t).Done():
		require.FailNow(t, "no answer")
	}
	return ""
}

// must lets a thread do something, waits until it is done, and answers its value.
func (p *peer) must(tb testing.TB, thread, verb string, arguments ...any) string {
	tb.Helper()
	return p.take(tb, p.ask(thread, verb, arguments...))
}

// owner answers the field by which a thread of the peer holds locks.
func (p *peer) owner(tb testing.TB, thread string) string {
	tb.Helper()
	return p.id + ":" + p.must(tb, thread, "thread")
}
