// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/election"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// P4: Close ends candidates, observers and leaders, in whatever state, and nothing is left.
func TestCloseEndsCandidatesObserversAndLeaders(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := locktest.Session(t, server)
	e := election.New(s, "a")
	led, stopped := make(chan election.Term, 1), make(chan error, 1)
	returned := make(chan error, 1)
	go func() {
		returned <- e.Run(t.Context(), func(ctx context.Context, term election.Term) error {
			led <- term
			<-ctx.Done()
			stopped <- context.Cause(ctx)
			return nil
		})
	}()
	term := redistest.Receive(t, "the term", led)
	waiting := mustCampaign(t.Context(), t, server, e, 1)
	changes := observe(t, e)
	changes.until(leads(term, ""))
	observed := make(chan error, 1)
	go func() {
		for {
			if _, err, more := changes.next(); err != nil || !more {
				observed <- err
				return
			}
		}
	}()
	closed := make(chan error, 1)
	ctx, giveUp := context.WithCancel(t.Context())
	go func() { closed <- s.Close(ctx) }()
	require.ErrorIs(t, locktest.MustFail(t, waiting), signalbox.ErrClosed)
	require.ErrorIs(t, redistest.Receive(t, "the end of the observer", observed), signalbox.ErrClosed)
	require.NoError(t, term.Err(), "Close waits for the leader")
	giveUp()
	cause := redistest.Receive(t, "the end of the term", stopped)
	require.ErrorIs(t, cause, signalbox.ErrLost)
	require.ErrorIs(t, cause, signalbox.ErrClosed)
	require.Error(t, redistest.Receive(t, "the return of Close", closed))
	require.ErrorIs(t, redistest.Receive(t, "the return of Run", returned), signalbox.ErrClosed)
	require.ErrorIs(t, e.Health(t.Context()), signalbox.ErrClosed)
	_, err := election.New(locktest.Session(t, server), "a").Leader(t.Context())
	require.ErrorIs(t, err, signalbox.ErrNotHeld)
	locktest.RequireEnds(t, server)
}

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
