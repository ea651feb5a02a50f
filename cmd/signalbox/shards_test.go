// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main_test

import (
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

func TestGroupsOfShardsAreSeen(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := locktest.SteadySession(t, server, signalbox.WithLabel("web-1"))
	text, code := output(t, server.URL(), "shards", "ls")
	require.Equal(t, []any{"", 0}, []any{text, code})
	_, code = output(t, server.URL(), "shards", "who", "orders")
	require.Equal(t, 1, code)

	member, err := shards.New(s, "orders", shards.Count(3), shards.Value("10.0.0.7")).Join(locktest.Context(t))
	require.NoError(t, err)
	require.NoError(t, member.SetWeight(locktest.Context(t), 0))
	redistest.Await(t, "a member that owns nothing", func() bool {
		entries, err := inspect.Name(locktest.Context(t), s, "orders")
		return err == nil && entries[0].Unowned == 3
	})
	text, code = output(t, server.URL(), "shards", "ls")
	require.Zero(t, code)
	lines := strings.Split(text, "\n")
	require.Equal(t, strings.Fields("GROUP SHARDS MEMBERS UNOWNED SINCE DRAINING SINCE"), strings.Fields(lines[0]))
	require.Equal(t, "orders 3 1 3", strings.Join(strings.Fields(lines[1])[:4], " "))
	text, _ = output(t, server.URL(), "shards", "ls", "--json", "or")
	require.Contains(t, text, `"kind":"shards"`)
	require.Contains(t, text, `"shards":3,"unowned":3`)
	text, _ = output(t, server.URL(), "ls")
	require.Contains(t, text, "1 members, 3 of 3 shards unowned")
	text, code = output(t, server.URL(), "who", "orders")
	require.Zero(t, code)
	for _, words := range []string{"orders: 3 shards, 1 members, 3 unowned since 20", "  member  web-1  since 20", "owns 0", "session " + s.ID(), "value 10.0.0.7"} {
		require.Contains(t, text, words)
	}
	text, code = output(t, server.URL(), "shards", "who", "orders")
	require.Equal(t, []any{3, 0}, []any{strings.Count(text, "unowned"), code})
	text, code = output(t, server.URL(), "shards", "who", "--json", "orders", "2")
	require.Equal(t, 1, code)
	require.True(t, strings.HasPrefix(text, `{"shard":"2","state":"unowned"`), text)
	_, code = output(t, server.URL(), "shards", "who", "orders", "3")
	require.Equal(t, 1, code, "there is no such shard")
	_, code = output(t, server.URL(), "shards", "move", "orders", "2", "nobody")
	require.Equal(t, 1, code)

	watching := start(t, server.URL(), "shards", "watch", "--json", "orders")
	for _, shard := range []string{"0", "1", "2"} {
		require.Contains(t, watching.line(), `{"shard":"`+shard+`","state":"unowned"`)
	}
	watching.signal(syscall.SIGTERM)
	watching.ended(128 + 15)

	_, code = output(t, server.URL(), "shards", "end", "orders", "nobody")
	require.Equal(t, 1, code)
	_, code = output(t, server.URL(), "shards", "end", "orders", s.ID())
	require.Zero(t, code)
	require.NoError(t, locktest.IgnoreUnconfirmed(member.Leave(locktest.Context(t))))
	redistest.Await(t, "no member", func() bool {
		text, code := output(t, server.URL(), "shards", "ls")
		return text == "" && code == 0
	})
	for _, args := range [][]string{{"shards"}, {"shards", "who"}, {"shards", "move", "a", "b"}, {"shards", "end", "a"}, {"shards", "nothing"}} {
		start(t, server.URL(), args...).ended(2, "")
	}
}
