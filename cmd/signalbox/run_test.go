// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/inspect"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/rwlock"
	"github.com/signalbox-go/signalbox/semaphore"
)

func TestRunHasTheExitCodeOfItsProgram(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL()
	for script, code := range map[string]int{"exit 0": 0, "exit 7": 7, "exit 255": 255, "kill -9 $$": 137, "kill -15 $$": 143} {
		start(t, url, "run", "a", "--", "sh", "-c", script).ended(code)
	}
}

// Flags are those of COMMAND as soon as it begins, with "--" before it or without.
func TestRunNeedsNoSeparator(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL()
	for _, args := range [][]string{
		{"a", "sh", "-c", "exit 7"},
		{"-w", "0", "a", "sh", "-c", "exit 7"},
		{"a", "--lease", "3s", "sh", "-c", "exit 7"},
		{"a", "--lease", "3", "--", "sh", "-c", "exit 7"},
		{"a", "--", "sh", "-c", `test "$0" = -- && exit 7`, "--"},
	} {
		start(t, url, append([]string{"run"}, args...)...).ended(7)
	}
}

func TestRunPassesStreamsEnvironmentAndArguments(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	p := start(t, server.URL(), "run", "order/42", "--", "sh", "-c", `read line; echo "$line $SIGNALBOX_NAME $1" && echo $SIGNALBOX_TOKEN && echo oops >&2`, "sh", "-w 'x")
	p.send("hello")
	require.Equal(t, "hello order/42 -w 'x", p.line())
	first := p.pid()
	require.Equal(t, 0, p.code())
	require.Equal(t, "oops\n", p.output())
	p = start(t, server.URL(), "run", "order/42", "--", "sh", "-c", "echo $SIGNALBOX_TOKEN")
	require.Greater(t, p.pid(), first)
}

// No shell reads the command, and a pipe into the program ends where it ends.
func TestRunReadsAPipeToItsEnd(t *testing.T) {
	t.Parallel()
	p := start(t, redistest.Start(t).URL(), "run", "a", "--", "wc", "-l")
	for range 3 {
		p.send("$(exit 1)")
	}
	p.stdin.Close()
	require.Equal(t, "3", strings.TrimSpace(p.line()))
	p.ended(0)
}

func TestRunSaysWhichProcessHasTheLock(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL()
	first := start(t, url, "run", "a", "--", "sh", "-c", "echo in; read x")
	first.line()
	start(t, url, "run", "-w", "0", "a", "--", "true").ended(75, "held as reentrant by", fmt.Sprintf(":%d", first.cmd.Process.Pid))
	start(t, url, "run", "-w", "0.05", "a", "--", "true").ended(75, "held as reentrant by")
	start(t, url, "run", "-w", "50ms", "-E", "9", "a", "--", "true").ended(9, "held")
	start(t, url, "run", "-w", "0", "-E", "0", "-q", "a", "--", "true").ended(0)
	next := start(t, url, "run", "-w", "1h", "a", "--", "echo", "next")
	first.send("")
	require.Equal(t, "next", next.line())
	first.ended(0)
	next.ended(0)
}

func TestRunAcquiresReadersWritersAndPermits(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := locktest.SteadySession(t, server)
	url := server.URL()
	try := func(code int, args ...string) {
		t.Helper()
		p := start(t, url, append(append([]string{"run", "-q", "-w", "0"}, args...), "--", "true")...)
		p.ended(code)
	}
	reader := locktest.Must(t, rwlock.New(s, "rw").RLock)
	try(0, "--shared", "rw")
	try(75, "--exclusive", "rw")
	require.NoError(t, reader.Unlock())
	try(0, "--exclusive", "rw")
	permits, err := semaphore.New(s, "sem", 3).Acquire(locktest.Context(t), 2)
	require.NoError(t, err)
	try(0, "--capacity", "3", "sem")
	try(75, "--capacity", "3", "-n", "2", "sem")
	require.NoError(t, permits.Unlock())
	try(0, "--capacity", "3", "-n", "3", "sem")

	java := locktest.SteadySession(t, server, signalbox.WithDefaults(signalbox.WithLayout(redisson.Layout())))
	other := locktest.Must(t, reentrant.New(java, "java").Lock)
	try(75, "--redisson", "java")
	require.NoError(t, other.Unlock())
	start(t, url, "run", "-w", "0", "--exclusive", "a", "--", binary, "run", "a", "--", "true").ended(71, "another kind")
}

// reporter prints each signal that it gets, and ends at SIGTERM.
const reporter = `exec 2>/dev/null; for s in HUP INT QUIT USR1 USR2 ALRM WINCH CONT; do trap "echo $s" $s; done; trap "echo TERM; exit 3" TERM; ` +
	`echo $$; while :; do sleep 0.01; done`

// What a command does at each signal: it hands the signal to its program ("to the program"), it ends, with its program if there is
// one ("ends"), it stops with its program ("stops"), or nothing.
func TestSignalsOfRunShardsServeAndServe(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, c := range []struct {
		signal             syscall.Signal
		name               string
		run, shards, serve string
	}{
		{syscall.SIGHUP, "HUP", "to the program", "to the program", "ends"},
		{syscall.SIGUSR1, "USR1", "to the program", "to the program", ""},
		{syscall.SIGUSR2, "USR2", "to the program", "to the program", ""},
		{syscall.SIGALRM, "ALRM", "to the program", "to the program", ""},
		{syscall.SIGWINCH, "WINCH", "to the program", "to the program", ""},
		{syscall.SIGCONT, "CONT", "to the program", "to the program", ""},
		{syscall.SIGTSTP, "TSTP", "stops", "stops", "stops"},
		{syscall.SIGINT, "INT", "to the program", "ends", "ends"},
		{syscall.SIGQUIT, "QUIT", "to the program", "ends", "ends"},
		{syscall.SIGTERM, "TERM", "to the program", "ends", "ends"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			try := func(does string, pids int, args ...string) {
				t.Helper()
				p := start(t, server.URL(), args...)
				programs := []int{p.cmd.Process.Pid}
				for range pids {
					programs = append(programs, p.pid())
				}
				if pids == 0 {
					p.address()
				}
				ended := func() {
					t.Helper()
					for range pids { // what is stopped is continued for its end
						for line := p.line(); line != "TERM"; line = p.line() {
							require.Equal(t, "CONT", line)
						}
					}
				}
				p.signal(c.signal)
				switch does {
				case "ends":
					ended()
					require.Equal(t, 128+int(c.signal), p.code())
					return
				case "stops":
					for _, pid := range programs {
						redistest.Await(t, "a stop", func() bool { return stopped(t, pid) })
					}
					p.signal(syscall.SIGCONT)
					for _, pid := range programs {
						redistest.Await(t, "an end of the stop", func() bool { return !stopped(t, pid) })
					}
					p.signal(syscall.SIGTERM)
					p.code()
					return
				case "to the program":
					for range pids {
						require.Equal(t, c.name, p.line())
					}
					if c.signal == syscall.SIGTERM {
						require.Equal(t, 3, p.code())
						return
					}
				}
				p.signal(syscall.SIGTERM)
				ended()
				p.code()
			}
			program := reporter
			if c.signal == syscall.SIGTSTP {
				program = "echo $$; exec sleep 1000" // a shell that is stopped while it starts a program does not count as stopped
			}
			try(c.run, 1, "run", c.name, "--", "sh", "-c", program)
			try(c.serve, 0, "serve", "--listen", "127.0.0.1:0")
			redistest.Slow(t, "a new group grants nothing for two seconds")
			try(c.shards, 3, "shards", "serve", "--count", "3", c.name, "--", "sh", "-c", program)
		})
	}
	// The shell and the sleep are one group.
	p := start(t, server.URL(), "run", "untrapped", "--", "sh", "-c", "echo in; sleep 1000")
	p.line()
	p.signal(syscall.SIGTERM)
	p.ended(143)
}

// What is for the program ends no wait for the lock.
func TestRunEndsItsWaitAtASignal(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := locktest.SteadySession(t, server)
	held := locktest.Must(t, reentrant.New(s, "a").Lock)
	waiters := func() int {
		entries, err := inspect.Name(locktest.Context(t), s, "a")
		require.NoError(t, err)
		return entries[0].WaiterCount
	}
	for s, code := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143, syscall.SIGHUP: 129, syscall.SIGQUIT: 131} {
		p := start(t, server.URL(), "run", "a", "--", "true")
		redistest.Await(t, "a waiter", func() bool { return waiters() == 1 })
		for _, ofProgram := range []syscall.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM} {
			p.signal(ofProgram)
		}
		p.signal(s)
		p.ended(code)
		require.Zero(t, waiters())
	}
	require.NoError(t, held.Unlock())
}

func TestRunHoldsTheLockForMin(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL()
	p := start(t, url, "run", "--min", "1h", "a", "--", "sh", "-c", "echo $$; exit 4")
	child := p.pid()
	redistest.Await(t, "the end of the program", func() bool { return !isThere(child) })
	start(t, url, "run", "-w", "0", "-q", "a", "--", "true").ended(75)
	p.signal(syscall.SIGTERM)
	p.ended(4)
	start(t, url, "run", "-w", "0", "--min", "1ms", "a", "--", "true").ended(0)
}

// A program that was put into the background by the command outlives it, without the lock.
func TestRunLeavesTheBackgroundAlone(t *testing.T) {
	t.Parallel()
	p := start(t, redistest.Start(t).URL(), "run", "a", "--", "sh", "-c", "sleep 1000 & echo $!")
	background := p.pid()
	p.ended(0)
	require.True(t, isThere(background))
	require.NoError(t, syscall.Kill(background, syscall.SIGKILL))
}

// As under nohup: a signal that is ignored stays so, for the program too.
func TestRunLeavesIgnoredSignalsIgnored(t *testing.T) {
	t.Parallel()
	p := start(t, redistest.Start(t).URL(), "run", "a", "--", "sh", "-c",
		`trap '' HUP; exec "$0" run b -- sh -c 'echo $PPID; read line; exit 3'`, binary)
	inner := p.pid()
	require.NoError(t, syscall.Kill(inner, syscall.SIGHUP))
	p.send("")
	p.ended(3)
}

// COMMAND may call signalbox itself, so it inherits the password.
func TestACommandCanCallSignalbox(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.MustDo(t, "CONFIG", "SET", "requirepass", "geheim")
	env := environment(server.URL(), "SIGNALBOX_PASSWORD=geheim", "SIGNALBOX="+binary)
	startWith(t, env, "run", "outer", "--", "sh", "-c", `"$SIGNALBOX" run inner -- true`).ended(0)
}
