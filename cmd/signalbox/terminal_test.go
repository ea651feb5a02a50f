// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main_test

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/locktest"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// onTerminal starts the command as a shell starts a job, with a terminal of its own. What it writes to
// standard error is not shown.
func onTerminal(tb testing.TB, url string, args ...string) *process {
	tb.Helper()
	stderr, err := os.CreateTemp(tb.TempDir(), "stderr")
	require.NoError(tb, err)
	p := &process{tb: tb, stderr: stderr, lines: make(chan string, 1000), exited: make(chan struct{})}
	p.cmd = exec.Command(binary, args...)
	p.cmd.Env, p.cmd.Stderr = environment(url), stderr
	p.stdin, err = pty.Start(p.cmd)
	require.NoError(tb, err)
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

// ^C ends the program, whether it has the terminal or not.
func TestInterruptOfTheTerminalEndsTheProgram(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL()
	for _, script := range []string{"echo ready; sleep 1000", "stty -echo; echo ready; read x", "trap 'exit 130' INT; echo ready; while :; do sleep 0.01; done"} {
		p := onTerminal(t, url, "run", "a", "--", "sh", "-c", script)
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
	require.Contains(t, []int{3, 130}, p.code())
}

// ^Z stops the program and signalbox, and a shell's SIGCONT continues both.
func TestStopOfTheTerminalStopsBoth(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL()
	for _, script := range []string{"echo $$; while ! read x; do sleep 0.01; done", "stty -echo; echo $$; read x"} {
		p := onTerminal(t, url, "run", "a", "--", "sh", "-c", script)
		child := p.pid()
		_, err := p.stdin.WriteString("\x1a")
		require.NoError(t, err)
		redistest.Await(t, "a stop", func() bool { return stopped(t, p.cmd.Process.Pid) && stopped(t, child) })
		p.signal(syscall.SIGCONT)
		p.send("")
		p.ended(0)
	}
}

func TestBreakAsksOnATerminal(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	held := locktest.Must(t, reentrant.New(locktest.SteadySession(t, server), "a").Lock)
	for _, c := range []struct {
		reply string
		code  int
	}{{"", 1}, {"no", 1}, {"yes", 0}} {
		p := onTerminal(t, server.URL(), "break", "a")
		redistest.Await(t, "the question", func() bool { return strings.Contains(p.said(), "[y/N]") })
		require.Contains(t, p.said(), `"a" is held as reentrant by`)
		require.NoError(t, held.Err())
		p.send(c.reply)
		require.Equal(t, c.code, p.code())
	}
	redistest.Receive(t, "the loss", held.Done())
	p := onTerminal(t, server.URL(), "break", "a")
	require.Equal(t, 1, p.code())
	require.Contains(t, p.said(), "no process holds it")
	require.Error(t, held.Unlock())
}
