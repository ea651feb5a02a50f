// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main_test

import (
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/shards"
)

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
