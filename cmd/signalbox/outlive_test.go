// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/inspect"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// privileged runs a program by another one, and skips the test if this user may not.
func privileged(t *testing.T, url string, by []string, args ...string) *process {
	t.Helper()
	if out, err := exec.Command(by[0], append(by[1:len(by):len(by)], "true")...).CombinedOutput(); err != nil {
		t.Skipf("%v: %v %s", by, err, out)
	}
	return startProgram(t, environment(url), by[0], append(by[1:len(by):len(by)], args...)...)
}

// withoutKill makes a root that may not signal other users' processes, as every other user. asOther makes another user.
var withoutKill = []string{"setpriv", "--inh-caps=-kill", "--bounding-set=-kill"}

const asOther = `setpriv --reuid=65534 --regid=65534 --clear-groups`

// container makes the first process of a container.
var container = []string{"unshare", "--pid", "--fork", "--kill-child", "--mount-proc"}

// tokenOf returns the token of the holder, or 0.
func tokenOf(t *testing.T, s *signalbox.Session, name string) uint64 {
	t.Helper()
	entries, err := inspect.Name(locktest.Context(t), s, name)
	require.NoError(t, err)
	if len(entries) == 0 || len(entries[0].Holders) == 0 {
		return 0
	}
	return entries[0].Token
}

// As sudo does: the program may not be signalled. It has the lock until it ends, also after a break.
func TestRunKeepsTheLockOfAProgramThatItMayNotSignal(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	operator := locktest.SteadySession(t, server)
	for name, script := range map[string]string{
		"leader": "exec " + asOther + " sh -c 'echo $$; read x; exit 3'",
		"child":  "exec 3<&0; " + asOther + " sh -c 'echo $$; read x; exit 3' <&3 & wait",
	} {
		p := privileged(t, server.URL(), withoutKill, binary, "run", name, "--", "sh", "-c", script)
		other := p.pid()
		first := tokenOf(t, operator, name)
		require.NotZero(t, first)
		require.NoError(t, inspect.Break(locktest.Context(t), operator, name))
		redistest.Await(t, "the lock again", func() bool { return strings.Contains(p.output(), "held again") })
		require.Greater(t, tokenOf(t, operator, name), first)
		require.True(t, isThere(other))
		// Beside it may be the shell around it, which was signalled and has not ended yet.
		require.Regexp(t, fmt.Sprintf(`cannot be ended: (\d+ sh, )?%d sh \(of another user\)`, other), p.output())
		p.signal(syscall.SIGTERM)
		redistest.Await(t, "a second report", func() bool { return strings.Count(p.output(), "cannot be ended") == 2 })
		require.NoError(t, inspect.Break(locktest.Context(t), operator, name))
		redistest.Await(t, "the lock again", func() bool { return strings.Count(p.output(), "held again") == 2 })
		p.send("")
		require.Equal(t, 70, p.code(), p.output())
		require.Contains(t, p.output(), "deleted or evicted; the program ended with exit code")
		require.Zero(t, tokenOf(t, operator, name))
	}
}

// A shell ends at the signal at once, and what it has started needs a moment: the lock is held for that.
func TestRunHoldsTheLockWhileASignalEndsTheGroup(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	operator := locktest.SteadySession(t, server)
	const script = `exec 3<&0 2>/dev/null; sh -c 'trap "echo got; read x; echo over; exit" TERM; echo in; while :; do sleep 0.01; done' <&3 & wait`
	p := start(t, server.URL(), "run", "--grace", "1h", "--lease", "4h", "a", "--", "sh", "-c", script)
	require.Equal(t, "in", p.line())
	p.signal(syscall.SIGTERM)
	require.Equal(t, "got", p.line())
	require.NotZero(t, tokenOf(t, operator, "a"))
	p.send("")
	require.Equal(t, "over", p.line())
	p.ended(143)

	p = start(t, server.URL(), "run", "--grace", "1ms", "a", "--", "sh", "-c", strings.Replace(script, "exec 3", "echo $$; exec 3", 1))
	p.pid()
	require.Equal(t, "in", p.line())
	p.signal(syscall.SIGTERM)
	require.Equal(t, "got", p.line())
	p.ended(143, "without the lock these processes of its group continue")
	p.send("")
	require.Equal(t, "over", p.line())
}

// What a process of the program has started ends with it at a loss, also in another group, as under timeout(1).
func TestRunEndsProcessesThatLeftTheGroup(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	operator := locktest.SteadySession(t, server)
	// The inner shell may outlive its sleep by an instant, and would report that it was killed.
	const inner = `exec 2>/dev/null; trap "" TERM; echo $$; while :; do sleep 0.01; done`
	p := start(t, server.URL(), "run", "--grace", "50ms", "a", "--", "sh", "-c", "timeout 1000 sh -c '"+inner+"'; exit 1")
	stray := p.pid()
	require.NoError(t, inspect.Break(locktest.Context(t), operator, "a"))
	p.ended(70, "lost")
	require.False(t, running(t, stray))
}

// The outer of two runs ends the inner one, which ends its program: at a loss no process of them is left.
func TestRunOfARunEndsBoth(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	operator := locktest.SteadySession(t, server)
	p := start(t, server.URL(), "run", "--grace", "50ms", "a", binary, "run", "b", "sh", "-c", stubborn)
	shell, other := p.pid(), p.pid()
	require.NoError(t, inspect.Break(locktest.Context(t), operator, "a"))
	p.ended(70, "lost")
	require.False(t, running(t, shell))
	require.False(t, running(t, other))

	p = start(t, server.URL(), "run", "a", binary, "run", "c", "sh", "-c", "trap 'exit 3' TERM; echo in; while :; do sleep 0.01; done")
	require.Equal(t, "in", p.line())
	p.signal(syscall.SIGTERM)
	require.Equal(t, 3, p.code(), p.output())
}

// The first ^C is refused, and gives the terminal to the program: the kernel sends the second one to it.
func TestInterruptOfTheTerminalEndsAProgramOfAnotherUser(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL()
	privileged(t, url, withoutKill, "true").ended(0) // else it is skipped
	p := programOnTerminal(t, url, withoutKill[0], append(withoutKill[1:len(withoutKill):len(withoutKill)],
		binary, "run", "a", "sh", "-c", "echo in; exec "+asOther+" sh -c 'echo $$; exec sleep 1000'")...)
	require.Equal(t, "in", p.line())
	p.pid()
	_, err := p.stdin.WriteString("\x03")
	require.NoError(t, err)
	redistest.Await(t, "the terminal for the program", func() bool { return strings.Contains(p.output(), "press the key again") })
	_, err = p.stdin.WriteString("\x03")
	require.NoError(t, err)
	require.Equal(t, 130, p.code(), p.output())
}

// running reports whether a process is there that is no zombie.
func running(tb testing.TB, pid int) bool {
	tb.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		require.ErrorIs(tb, err, os.ErrNotExist)
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}

// The first process of a container waits for the orphans, and a loss is over when the program has ended.
func TestRunAsTheFirstProcessOfAContainer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	operator := locktest.SteadySession(t, server)
	const script = `for i in 1 2 3; do (sleep 0 & exit); done; echo $$; while read x; do set -- /proc/[0-9]*; echo $#; done`
	p := privileged(t, server.URL(), container, binary, "run", "--grace", "1h", "--lease", "4h", "a", "--", "sh", "-c", script)
	require.NotEqual(t, 1, p.pid())
	redistest.Await(t, "signalbox and the shell alone", func() bool {
		p.send("")
		return p.line() == "2"
	})
	require.NoError(t, inspect.Break(locktest.Context(t), operator, "a"))
	p.ended(70, "lost", "exit code 143")
}

// Zombies of the group that no process waits for do not run: they do not use up the grace.
func TestRunDoesNotWaitForZombies(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	operator := locktest.SteadySession(t, server)
	p := privileged(t, server.URL(), container, "sh", "-c", `"$@" & exec sleep 1000`, "sh", // the first process waits for none
		binary, "run", "--grace", "1h", "--lease", "4h", "a", "--", "sh", "-c", "(sleep 0 & exit); echo in; exec sleep 1000")
	require.Equal(t, "in", p.line())
	require.NoError(t, inspect.Break(locktest.Context(t), operator, "a"))
	redistest.Await(t, "the end", func() bool { return strings.Contains(p.output(), "the lease was lost") })
}

// A warning that no process reads does not end signalbox, nor the program with it.
func TestRunSurvivesAClosedStandardError(t *testing.T) {
	t.Parallel()
	p := privileged(t, redistest.Start(t).URL(), withoutKill, "sh", "-c", `exec 3>&1; "$@" 2>&1 >&3 | true; exit 7`, "sh",
		binary, "run", "a", "--", "sh", "-c", "exec "+asOther+" sh -c 'echo $$; read x; echo over'")
	p.pid()
	p.send("")
	require.Equal(t, "over", p.line())
}
