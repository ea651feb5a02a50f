// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/inspect"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/shards"
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

// For its first seconds a member has a lease of a few seconds: if the machine is so busy that it ends, the member joins again. So
// each look waits for what is to be seen.
func TestGroupsOfShardsAreSeen(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := locktest.SteadySession(t, server, signalbox.WithLabel("web-1"))
	see := func(line string, code int, words ...string) {
		t.Helper()
		var text string
		var ended int
		if !redistest.PollUntil(redistest.Patience, func() bool {
			text, ended = output(t, server.URL(), strings.Fields(line)...)
			missing := func(word string) bool { return !strings.Contains(strings.Join(strings.Fields(text), " "), word) }
			return ended == code && !slices.ContainsFunc(words, missing)
		}) {
			require.Fail(t, "not seen", "signalbox %s: code %d, not %d, or not all of %q in:\n%s", line, ended, code, words, text)
		}
	}
	text, code := output(t, server.URL(), "shards", "ls")
	require.Equal(t, []any{"", 0}, []any{text, code})
	see("shards who orders", 1)

	member, err := shards.New(s, "orders", shards.Count(3), shards.Value("10.0.0.7")).Join(locktest.Context(t))
	require.NoError(t, err)
	require.NoError(t, member.SetWeight(locktest.Context(t), 0))
	see("shards ls", 0, "GROUP SHARDS MEMBERS UNOWNED SINCE DRAINING SINCE orders 3 1 3 20")
	see("shards ls --json or", 0, `"kind":"shards"`, `"shards":3,"unowned":3`)
	see("ls", 0, "1 member, 3 of 3 shards unowned")
	see("who orders", 0, "orders: 3 shards, 1 member, 3 unowned since 20", "member web-1 since 20", "owns 0", "session "+s.ID(), "value 10.0.0.7")
	see("shards who orders", 0, "0 unowned -", "1 unowned -", "2 unowned -")
	see("shards who --json orders 2", 1, `{"shard":"2","state":"unowned"`)
	see("shards who orders 3", 1) // there is no such shard
	see("shards move orders 2 nobody", 1)

	watching := start(t, server.URL(), "shards", "watch", "--json", "orders")
	for _, shard := range []string{"0", "1", "2"} {
		require.Contains(t, watching.line(), `{"shard":"`+shard+`","state":"unowned"`)
	}
	watching.signal(syscall.SIGTERM)
	watching.ended(128 + 15)

	see("shards end orders nobody", 1)
	see("shards end orders "+s.ID(), 0)
	require.NoError(t, locktest.IgnoreUnconfirmed(member.Leave(locktest.Context(t))))
	if !redistest.PollUntil(redistest.Patience, func() bool {
		text, code = output(t, server.URL(), "shards", "ls")
		return text == "" && code == 0
	}) {
		require.Fail(t, "a member is left", "code %d: %s", code, text)
	}
	for _, args := range [][]string{{"shards"}, {"shards", "who"}, {"shards", "move", "a", "b"}, {"shards", "end", "a"}, {"shards", "nothing"}} {
		start(t, server.URL(), args...).ended(2, "")
	}
}

// Two members divide the shards. What one of them runs is ended when its shards move, and they move when it has ended.
func TestProgramsRunForTheShardsOfAMember(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "a new group grants nothing for two seconds")
	server := redistest.Start(t)
	// It prints its start, and its end 100 ms after SIGTERM.
	const program = `exec 2>/dev/null; trap 'sleep 0.1; echo "ends $SIGNALBOX_SHARD"; exit 0' TERM; echo "begins $SIGNALBOX_SHARD $SIGNALBOX_INDEX $SIGNALBOX_COUNT $SIGNALBOX_GROUP $((SIGNALBOX_TOKEN > 0))"; while :; do sleep 0.05; done`
	serve := func() *process {
		return start(t, server.URL(), "shards", "serve", "--count", "2", "orders", "--", "sh", "-c", program)
	}
	first := serve()
	require.ElementsMatch(t, []string{"begins 0 0 2 orders 1", "begins 1 1 2 orders 1"}, []string{first.line(), first.line()})
	second := serve()
	ended, begun := first.line(), second.line()
	require.Equal(t, "ends "+strings.Fields(begun)[1], ended)

	second.signal(syscall.SIGTERM)
	require.Equal(t, ended, second.line())
	second.ended(128 + 15)
	require.Equal(t, begun, first.line())
	first.signal(syscall.SIGTERM)
	require.ElementsMatch(t, []string{"ends 0", "ends 1"}, []string{first.line(), first.line()})
	first.ended(128 + 15)
}

// Names reach a group by a change of --shard on all hosts, and by the command for it.
func TestNamesReachAGroup(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "a new group grants nothing for two seconds")
	server := redistest.Start(t)
	serve := func(names ...string) *process {
		args := []string{"shards", "serve"}
		for _, name := range names {
			args = append(args, "--shard", name)
		}
		return start(t, server.URL(), append(args, "regions", "--", "sh", "-c", `echo "$SIGNALBOX_SHARD"; exec sleep 60`)...)
	}
	names := func() string {
		text, _ := output(t, server.URL(), "shards", "who", "regions")
		var all []string
		for line := range strings.Lines(text) {
			if fields := strings.Fields(line); len(fields) > 1 && fields[1] == "owned" {
				all = append(all, fields[0])
			}
		}
		return strings.Join(all, " ")
	}
	old := serve("eu", "us")
	redistest.Await(t, "the names of the first host", func() bool { return names() == "eu us" })
	next := serve("asia", "eu")
	old.signal(syscall.SIGTERM)
	redistest.Await(t, "the names of the host that is left", func() bool { return names() == "asia eu" })
	_, code := output(t, server.URL(), "shards", "sync", "regions", "eu", "africa")
	require.Zero(t, code)
	redistest.Await(t, "the names of the command", func() bool { return names() == "africa eu" })
	next.signal(syscall.SIGTERM)
	_, code = output(t, server.URL(), "shards", "sync", "nothing", "eu")
	require.Equal(t, 1, code)
}

// A program that ends is started again, and one whose exit code is 75 gives its shard away. One that ignores SIGTERM is killed.
func TestProgramOfAShardThatEndsIsStartedAgain(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "a new group grants nothing for two seconds")
	server := redistest.Start(t)
	const program = `trap '' TERM; echo "$SIGNALBOX_SHARD $SIGNALBOX_INDEX $SIGNALBOX_COUNT $SIGNALBOX_TOKEN"; read x && exit 9; [ "$SIGNALBOX_SHARD" = b ] && exit 3; sleep 60`
	p := start(t, server.URL(), "shards", "serve", "--drain", "0.1", "--shard", "b", "names", "--", "sh", "-c", program)
	line := p.line()
	require.True(t, strings.HasPrefix(line, "b -1 0 "), line)
	require.Equal(t, line, p.line(), "the same ownership")
	p.signal(syscall.SIGTERM)
	require.Equal(t, 128+15, p.code())
	require.Contains(t, p.output(), `signalbox: shard "b" of "names": the program ended with exit code 3`)

	p = start(t, server.URL(), "shards", "serve", "--drain", "0.1", "--shard", "a", "hanging", "--", "sh", "-c", program)
	p.line()
	p.signal(syscall.SIGTERM)
	p.ended(128 + 15)

	for _, args := range [][]string{{"g"}, {"g", "--", "true"}, {"--count", "2", "--shard", "a", "g", "--", "true"}, {"--count", "2", "--grace", "6", "g", "--", "true"}, {"--count", "0", "g", "--", "true"}} {
		start(t, server.URL(), append([]string{"shards", "serve"}, args...)...).ended(2, "")
	}
	start(t, server.URL(), "shards", "serve", "--count", "2", "g", "--", "./no-such-program").ended(127, "not found")
}
