// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/election"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// A process that resigns and closes notifies observers by message before it is gone.
func TestAResignationBeforeCloseIsReported(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	changes := observe(t, election.New(locktest.Session(t, server), "a"))
	for range 10 {
		s := locktest.Session(t, server)
		term := mustLead(t, election.New(s, "a"))
		changes.until(leads(term, ""))
		require.NoError(t, term.Resign())
		require.NoError(t, s.Close(t.Context()))
		changes.until(isNoLeader)
		require.Zero(t, locktest.Count(t, server, "EXISTS", valueKey))
	}
}

// Health distinguishes a standby that reaches the server from one that does not, and a leader from one whose term was lost.
func TestHealthReportsWhetherAProcessCanLead(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	s := locktest.Session(t, proxy)
	leader, standby := election.New(locktest.Session(t, server), "a"), election.New(s, "a")
	require.NoError(t, standby.Health(t.Context()), "no process leads")
	term := mustLead(t, leader)
	require.NoError(t, leader.Health(t.Context()))
	require.NoError(t, standby.Health(t.Context()))
	proxy.Refuse()
	proxy.CutAll()
	require.Error(t, standby.Health(locktest.Context(t)))
	proxy.Accept()
	redistest.Await(t, "the server", func() bool { return standby.Health(t.Context()) == nil })
	server.MustDo(t, "DEL", "sb:{a}:lock")
	require.ErrorIs(t, leader.Health(t.Context()), signalbox.ErrLost)
	require.NoError(t, standby.Health(t.Context()))
	_ = term.Resign()
	require.NoError(t, leader.Health(t.Context()))
}
