// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main_test

import (
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/inspect"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

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
