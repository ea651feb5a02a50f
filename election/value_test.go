// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/election"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// Leader and Observe return what the leader has set, and the server's account of its term.
func TestTheValueOfALeaderIsRead(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := locktest.Session(t, server, signalbox.WithLabel("host-1"))
	other := election.New(locktest.Session(t, server), "a")
	changes := observe(t, other)
	require.Equal(t, noLeader, changes.must())
	before := locktest.ServerTime(t, server)
	term := mustLead(t, election.New(s, "a", election.Value("10.0.0.1:80")))
	l := changes.until(leads(term, "10.0.0.1:80"))
	require.Equal(t, "host-1", l.Label)
	require.Equal(t, s.ID(), l.Session)
	require.False(t, l.Since.Before(before))
	require.False(t, l.Since.After(locktest.ServerTime(t, server)))
	for _, value := range []string{"new", "", strings.Repeat("\x00", election.MaxValue)} {
		require.NoError(t, term.SetValue(t.Context(), value))
		changes.until(leads(term, value))
		got, err := other.Leader(t.Context())
		require.NoError(t, err)
		require.Equal(t, value, got.Value)
		require.Equal(t, l.Token, got.Token)
	}
	require.NoError(t, term.Resign())
	changes.until(isNoLeader)
	locktest.RequireEnds(t, server)
}

// P10: while memory is full a value waits, and a term can be resigned.
func TestAValueWaitsForMemory(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	e := election.New(locktest.Session(t, server), "a")
	term := mustLead(t, e)
	require.NoError(t, term.SetValue(t.Context(), "x"))
	server.MustDo(t, "CONFIG", "SET", "maxmemory", "1")
	returned := make(chan error, 1)
	go func() { returned <- term.SetValue(locktest.Context(t), "y") }()
	redistest.Await(t, "a refusal", func() bool { return refusals(t, server) > 1 })
	require.Empty(t, returned)
	server.MustDo(t, "CONFIG", "SET", "maxmemory", "0")
	require.NoError(t, redistest.Receive(t, "the value", returned))
	server.MustDo(t, "CONFIG", "SET", "maxmemory", "1")
	require.NoError(t, term.Resign())
	_, err := e.Leader(t.Context())
	require.ErrorIs(t, err, signalbox.ErrNotHeld)
}

// refusals returns how many replies of the server were that memory is full.
func refusals(tb testing.TB, server *redistest.Server) int {
	tb.Helper()
	info, _ := server.MustDo(tb, "INFO", "errorstats").(string)
	code := "OOM"
	if redistest.IsOld(tb) {
		code = "ERR" // it says so of an error in a script
	}
	if !strings.Contains(info, "errorstat_"+code+":") {
		return 0
	}
	return 2
}
