// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	main "github.com/signalbox-go/signalbox/cmd/signalbox"
	"github.com/signalbox-go/signalbox/election"
	"github.com/signalbox-go/signalbox/fair"
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

// years is a duration near the longest of all.
const years = "2562047h"

// badNumbers are values of each flag that is a number or a duration, by command: what is too small, too large, and no number.
var badNumbers = map[string]string{
	"run --wait":               "-1s NaN 1e300",
	"run --conflict-exit-code": "-1 256",
	"run --capacity":           "-1 0 2147483648 9223372036854775808",
	"run --permits":            "-1 0 2147483648 9223372036854775808",
	"run --min":                "-1s NaN " + years,
	"run --lease":              "-1s 0 1ns " + years,
	"run --grace":              "-1s " + years,
	"move --wait":              "-1s NaN 1e300",
	"wait --wait":              "-1s NaN 1e300",
	"watch --every":            "-1s 0 1ns " + years,
	"serve --every":            "-1s 0 1ns " + years,
	"shards serve --count":     "-1 0 65537 9223372036854775808",
	"shards serve --weight":    "-1 0 1001 9223372036854775808",
	"shards serve --limit":     "-1 0 65537 9223372036854775808",
	"shards serve --lease":     "-1s 0 1ns " + years,
	"shards serve --grace":     "-1s " + years,
	"shards serve --drain":     "-1s " + years,
}

// A number or a duration of the command line that is too small or too large is a wrong usage, and nothing runs.
func TestEveryNumberOfTheCommandLineHasBounds(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL()
	listed := make(map[string]bool)
	eachCommand(main.NewRoot(), func(cmd *cobra.Command) {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !slices.Contains([]string{"string", "stringArray", "bool"}, f.Value.Type()) {
				listed[strings.TrimPrefix(cmd.CommandPath(), "signalbox ")+" --"+f.Name] = true
			}
		})
	})
	for name, values := range badNumbers {
		require.True(t, listed[name], "there is no %s", name)
		delete(listed, name)
		command, flag, _ := strings.Cut(name, " --")
		for value := range strings.FieldsSeq(values) {
			args := append(strings.Fields(command), "--"+flag+"="+value)
			switch {
			case flag == "permits":
				args = append(args, "--capacity=2")
			case command == "shards serve" && flag != "count":
				args = append(args, "--count=1")
			}
			if command == "run" || command == "wait" || command == "move" || command == "shards serve" {
				args = append(args, "name")
			}
			if command == "run" || command == "shards serve" {
				args = append(args, "--", "false")
			}
			p := start(t, url, args...) // a process of its own: run and shards serve wait for every child of theirs
			require.Equal(t, 2, p.code(), "%s: %s", args, p.output())
		}
	}
	require.Empty(t, listed, "no row says what is too small and too large")
}

// eachCommand calls do for a command and those below it.
func eachCommand(cmd *cobra.Command, do func(*cobra.Command)) {
	do(cmd)
	for _, below := range cmd.Commands() {
		eachCommand(below, do)
	}
}

// stubborn is a shell that prints its id and that of its child. Both ignore SIGTERM.
const stubborn = `exec 2>/dev/null; trap '' TERM; sleep 1000 & echo $$; echo $!; while :; do sleep 0.01; done`

// The program ends at SIGTERM, and the rest of its group with it.
func TestRunEndsItsProgramIfTheLockIsBroken(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	operator := locktest.SteadySession(t, server)
	p := start(t, server.URL(), "run", "a", "--", "sh", "-c", `exec 2>/dev/null; trap 'echo ended; exit 5' TERM; sleep 1000 & echo $!; while :; do sleep 0.01; done`)
	other := p.pid()
	require.NoError(t, inspect.Break(locktest.Context(t), operator, "a"))
	require.Equal(t, "ended", p.line())
	p.ended(70, "lost", "exit code 5")
	require.False(t, running(t, other))
}

func TestRunKillsAProgramThatIgnoresSIGTERM(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	operator := locktest.SteadySession(t, server)
	for _, grace := range []string{"0s", "200ms"} {
		p := start(t, server.URL(), "run", "--grace", grace, "a", "--", "sh", "-c", stubborn)
		shell, other := p.pid(), p.pid()
		require.NoError(t, inspect.Break(locktest.Context(t), operator, "a"))
		p.ended(70, "lost", "exit code 137")
		require.False(t, isThere(shell))
		redistest.Await(t, "the end of the group", func() bool { return !isThere(other) })
	}
}

// The program is asked to end while the lock is still at the server, and killed before it can expire.
func TestRunEndsItsProgramBeforeTheLeaseEnds(t *testing.T) {
	redistest.Slow(t, "a lease of three seconds comes near its end")
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	p := start(t, proxy.URL(), "run", "--lease", "3s", "--grace", "1s", "a", "--", "sh", "-c",
		`exec 2>/dev/null; trap 'echo asked; read line; exit 6' TERM; echo in; while :; do sleep 0.01; done`)
	p.line()
	require.Equal(t, int64(1), server.MustDo(t, "EXISTS", "sb:{a}:lock"))
	proxy.Refuse()
	proxy.CutAll()
	require.Equal(t, "asked", p.line())
	require.Equal(t, int64(1), server.MustDo(t, "EXISTS", "sb:{a}:lock"), "the server has the lock for another second")
	p.send("")
	p.ended(70, "could not be renewed", "exit code 6")
}

// The release of a lock whose server is away is reported; the program has done its work.
func TestRunReportsAReleaseThatWasNotConfirmed(t *testing.T) {
	redistest.Slow(t, "the command gives the server a second to confirm")
	t.Parallel()
	server := redistest.Start(t)
	p := start(t, server.URL(), "run", "a", "--", "sh", "-c", "echo in; read line; exit 3")
	p.line()
	server.Kill()
	p.send("")
	require.Equal(t, 3, p.code())
	require.Contains(t, p.output(), "did not confirm")
	require.Equal(t, 1, strings.Count(p.output(), "\n"))
}

// A program does not outlive a signalbox that was killed.
func TestRunTakesItsProgramAlong(t *testing.T) {
	t.Parallel()
	p := start(t, redistest.Start(t).URL(), "run", "a", "--", "sh", "-c", "trap '' TERM HUP; echo $$; while :; do sleep 0.01; done")
	child := p.pid()
	p.signal(syscall.SIGKILL)
	redistest.Await(t, "the end of the program", func() bool { return !isThere(child) })
}

// A process that was stopped past its lease does not continue a program that it stopped: it ends it.
func TestRunThatWasStoppedPastItsLeaseEndsItsProgram(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	operator := locktest.SteadySession(t, server)
	// Without a loop of programs: a shell that is stopped while it starts one does not count as stopped.
	p := start(t, server.URL(), "run", "a", "--", "sh", "-c", "echo $$; exec sleep 1000")
	child := p.pid()
	p.signal(syscall.SIGTSTP)
	redistest.Await(t, "a stop", func() bool { return stopped(t, p.cmd.Process.Pid) && stopped(t, child) })
	require.NoError(t, inspect.Break(locktest.Context(t), operator, "a"))
	p.signal(syscall.SIGCONT)
	p.ended(70, "lost", "exit code 143")
}

// P1: move asks the leader to hand over, and prints the next leader.
func TestMoveChangesTheLeader(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	text, code := output(t, server.URL(), "move", "a")
	require.Equal(t, 1, code, text)
	ctx, cancel := context.WithCancel(locktest.Context(t))
	var ids []string
	ended := make(chan error, 2)
	led := make(chan error, 10)
	for range 2 {
		s := locktest.SteadySession(t, server)
		ids = append(ids, s.ID())
		e := election.New(s, "a")
		go func() {
			ended <- e.Run(ctx, func(ctx context.Context, _ election.Term) error {
				<-ctx.Done()
				led <- context.Cause(ctx)
				return nil
			})
		}()
		redistest.Await(t, "a candidate", func() bool {
			for w := range election.New(s, "a").Observe(ctx) {
				return w.Session == ids[0]
			}
			return false
		})
	}
	redistest.Await(t, "the other candidate", func() bool {
		for range fair.New(locktest.SteadySession(t, server), "a").Waiters(ctx) {
			return true
		}
		return false
	})
	text, code = output(t, server.URL(), "move", "-w", "20", "a", ids[1])
	require.Zero(t, code, text)
	require.Contains(t, text, ids[1])
	require.ErrorIs(t, <-led, election.ErrHandover)
	text, code = output(t, server.URL(), "move", "-w", "20", "a", ids[1])
	require.Equal(t, 1, code, text)
	cancel()
	<-ended
	<-ended
}
