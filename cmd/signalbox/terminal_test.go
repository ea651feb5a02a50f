// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// onTerminal starts the command as ssh -t does, with a terminal of its own and no shell. What it writes to
// standard error is not shown.
func onTerminal(tb testing.TB, url string, args ...string) *process {
	tb.Helper()
	return programOnTerminal(tb, url, binary, args...)
}

// inShell starts a program as a job of a shell that has a terminal. When the job stops, the shell prints "stopped", reads
// a line and continues the job.
func inShell(tb testing.TB, url string, job ...string) *process {
	tb.Helper()
	// The standard error is the terminal that bash hands to its jobs.
	const script = `exec 2>/dev/tty; set -m; "$@"; code=$?; if [ $code -gt 128 ]; then echo stopped; read line; fg; code=$?; fi; exit $code`
	return programOnTerminal(tb, url, "bash", append([]string{"-c", script, "bash"}, job...)...)
}

func programOnTerminal(tb testing.TB, url, program string, args ...string) *process {
	tb.Helper()
	stderr, err := os.CreateTemp(tb.TempDir(), "stderr")
	require.NoError(tb, err)
	p := &process{tb: tb, stderr: stderr, lines: make(chan string, 1000), exited: make(chan struct{})}
	p.cmd = exec.Command(program, args...)
	p.cmd.Env, p.cmd.Stderr = environment(url), stderr
	terminal, err := pty.Start(p.cmd)
	require.NoError(tb, err)
	// A read of this descriptor ends when it is closed, even if a process that outlived the program has the terminal.
	end, err := unix.FcntlInt(terminal.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	require.NoError(tb, err)
	require.NoError(tb, unix.SetNonblock(end, true))
	require.NoError(tb, terminal.Close())
	p.stdin = os.NewFile(uintptr(end), terminal.Name())
	p.stdout = p.stdin
	p.supervise()
	return p
}

// A program that reads from the terminal is given it, and signalbox has it back at the end.
func TestRunGivesItsProgramTheTerminal(t *testing.T) {
	t.Parallel()
	p := onTerminal(t, redistest.Start(t).URL(), "run", "a", "--", "sh", "-c", "stty -echo; echo ready; read x; echo got $x; exit 3")
	require.Equal(t, "ready", p.line())
	p.send("hello")
	require.Equal(t, "got hello", p.line())
	p.ended(3)
}

// ^C ends the program, whether it has the terminal or not. After "ready" the scripts start no program that lives for long:
// a shell that starts one while it gets SIGINT may keep the signal from it, and waits for its end.
func TestInterruptOfTheTerminalEndsTheProgram(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL()
	for _, script := range []string{"echo ready; read x <$0", "stty -echo; echo ready; read x", "trap 'exit 130' INT; echo ready; while :; do sleep 0.01; done"} {
		p := onTerminal(t, url, "run", "a", "--", "sh", "-c", script, pipe(t).Name())
		require.Equal(t, "ready", p.line())
		_, err := p.stdin.WriteString("\x03")
		require.NoError(t, err)
		p.ended(130)
	}
}

// ^C ends the wait for --min, also if the program had the terminal.
func TestInterruptOfTheTerminalEndsTheMinimum(t *testing.T) {
	t.Parallel()
	script := "stty -echo; echo ready; read x; echo over; exit 3"
	p := onTerminal(t, redistest.Start(t).URL(), "run", "--min", "1h", "a", "--", "sh", "-c", script)
	require.Equal(t, "ready", p.line())
	p.send("")
	require.Equal(t, "over", p.line())
	redistest.Await(t, "the end", func() bool {
		_, err := p.stdin.WriteString("\x03") // again, since the terminal may be that of the program still
		return err != nil || locktest.IsClosed(p.exited)
	})
	require.Contains(t, []int{3, 130, -1}, p.code()) // -1: the last one came when the lock was released, and nothing caught it
}

// The two ways of a program with a terminal: it never reads from it, but from the pipe $0; or it is given it.
var terminalScripts = []string{"echo $PPID; echo $$; read x <$0", "stty -echo; echo $PPID; echo $$; read x"}

// pipe returns a named pipe, open to write to.
func pipe(tb testing.TB) *os.File {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "pipe")
	require.NoError(tb, syscall.Mkfifo(path, 0o600))
	end, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(tb, err)
	tb.Cleanup(func() { end.Close() })
	return end
}

// ^Z stops the program and signalbox, and the shell continues both, a signalbox in a script too.
func TestStopOfTheTerminalStopsBoth(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL()
	for _, script := range terminalScripts {
		for _, job := range [][]string{{binary}, {"sh", "-c", `"$0" "$@"; exit $?`, binary}} {
			end := pipe(t)
			p := inShell(t, url, append(job, "run", "a", "--", "sh", "-c", script, end.Name())...)
			self, child := p.pid(), p.pid()
			_, err := p.stdin.WriteString("\x1a")
			require.NoError(t, err)
			redistest.Await(t, "a stop", func() bool { return stopped(t, self) && stopped(t, child) })
			for p.line() != "stopped" { // behind what the terminal echoes
			}
			p.send("")
			redistest.Await(t, "the end of the stop", func() bool { return !stopped(t, self) && !stopped(t, child) })
			_, err = end.WriteString("\n")
			require.NoError(t, err)
			p.send("")
			p.ended(0)
		}
	}
}

// Where no shell would continue it, ^Z stops nothing: under ssh -t, say, or with a wrapper that leads the session.
func TestStopOfATerminalWithoutAShellStopsNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, script := range terminalScripts {
		for _, start := range []func(args ...string) *process{
			func(args ...string) *process { return onTerminal(t, server.URL(), args...) },
			func(args ...string) *process {
				return programOnTerminal(t, server.URL(), "sh", append([]string{"-c", `"$0" "$@"; exit $?`, binary}, args...)...)
			},
		} {
			end := pipe(t)
			p := start("run", "--lease", "3s", "a", "--", "sh", "-c", script, end.Name())
			p.pid()
			p.pid()
			_, err := p.stdin.WriteString("\x1a\x1a\n")
			require.NoError(t, err)
			_, err = end.WriteString("\n")
			require.NoError(t, err)
			p.ended(0)
		}
	}
}

func TestBreakAsksOnATerminal(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := locktest.SteadySession(t, server)
	held := locktest.Must(t, reentrant.New(s, "a").Lock)
	for _, c := range []struct {
		reply string
		code  int
	}{{"", 1}, {"no", 1}, {"yes", 0}} {
		p := onTerminal(t, server.URL(), "break", "a")
		redistest.Await(t, "the question", func() bool { return strings.Contains(p.output(), "[y/N]") })
		require.Contains(t, p.output(), `"a" is held as reentrant by`)
		require.NoError(t, held.Err())
		p.send(c.reply)
		require.Equal(t, c.code, p.code())
	}
	redistest.Receive(t, "the loss", held.Done())
	require.Error(t, held.Unlock())

	first := locktest.Must(t, reentrant.New(s, "a").Lock)
	p := onTerminal(t, server.URL(), "break", "a")
	redistest.Await(t, "the question", func() bool { return strings.Contains(p.output(), "[y/N]") })
	require.NoError(t, locktest.IgnoreUnconfirmed(first.Unlock()))
	second := locktest.Must(t, reentrant.New(s, "a").Lock)
	p.send("yes")
	require.Equal(t, 75, p.code(), "another holder than the one that was shown")
	require.Contains(t, p.output(), "another hold than the one that was meant")
	require.NoError(t, second.Err())
	require.NoError(t, locktest.IgnoreUnconfirmed(second.Unlock()))

	p = onTerminal(t, server.URL(), "break", "a")
	require.Equal(t, 1, p.code())
	require.Contains(t, p.output(), "no process holds it")
}
