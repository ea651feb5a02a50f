// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/election"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// watch observes the election "a", and returns what waits for a leader with a value.
func watch(t *testing.T, e *election.Election) (until func(value string) election.Leader) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*limit)
	next, stop := iter.Pull2(e.Observe(ctx))
	t.Cleanup(func() {
		cancel()
		stop()
	})
	return func(value string) election.Leader {
		for {
			l, err, more := next()
			require.True(t, more)
			if err == nil && l.Value == value && (value == "") == (l.Token == 0) {
				return l
			}
		}
	}
}

// queued waits until n candidates are in the queue.
func queued(t *testing.T, server *redistest.Server, n int) {
	t.Helper()
	redistest.Await(t, "candidates in the queue", func() bool { return locktest.Tickets(t, server, "a") == n })
}

// P1, P3, P6: leaders that are killed are followed by the next candidate, in its order, with a greater token, and observers
// see each of them.
func TestKilledLeadersAreFollowedInOrder(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "the lease of a process that was killed has to expire on the server")
	server := redistest.Start(t)
	until := watch(t, election.New(locktest.Session(t, server), "a"))
	until("")
	const leaders = 4
	var all []*redistest.Process
	for i := range leaders {
		p := child(t, server, fmt.Sprint(i))
		all = append(all, p)
		if i == 0 {
			require.Equal(t, "leads", line(t, p))
		} else {
			queued(t, server, i)
		}
	}
	last := until("0").Token
	for i, p := range all[:leaders-1] {
		p.Kill()
		require.Equal(t, "leads", line(t, all[i+1]))
		l := until(fmt.Sprint(i + 1))
		require.Greater(t, l.Token, last)
		last = l.Token
	}
	all[leaders-1].CloseInput() // it resigns
	require.Equal(t, "over", line(t, all[leaders-1]))
	require.Zero(t, all[leaders-1].Wait(limit))
	until("")
	locktest.RequireEnds(t, server)
}

// P2, P8: a leader that was stopped past its lease finds out when it first checks its lease, writes nothing, and campaigns again.
func TestAStoppedLeaderLearnsOfItsLossAtTheFirstCheck(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "a process is stopped for longer than its lease lasts")
	server := redistest.Start(t)
	e := election.New(locktest.Session(t, server), "a", signalbox.WithRenewedLease(lease))
	stopped := child(t, server, "stopped")
	require.Equal(t, "leads", line(t, stopped))
	for range 3 {
		stopped.Send("check")
		require.Equal(t, "true", line(t, stopped))
		stopped.Freeze()
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		term, err := e.Campaign(ctx)
		cancel()
		require.NoError(t, err)
		require.NoError(t, term.SetValue(t.Context(), "mine"))
		stopped.Send("check")
		stopped.Thaw()
		hasPolled := false
		for said := line(t, stopped); said != "over"; said = line(t, stopped) {
			require.Equal(t, "false", said)
			hasPolled = true
		}
		queued(t, server, 1)
		l, err := e.Leader(t.Context())
		require.NoError(t, err)
		require.Equal(t, "mine", l.Value)
		require.NoError(t, term.Err())
		require.NoError(t, term.Resign())
		require.Equal(t, "leads", line(t, stopped))
		if !hasPolled { // its context ended first: the next term checks
			require.Equal(t, "true", line(t, stopped))
		}
	}
	stopped.CloseInput()
	require.Zero(t, stopped.Wait(limit))
}

// P2, P6: a server that restarts empty ends the term of its leader; then the candidates lead as before.
func TestARestartOfTheServerEndsTheTerm(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "a leader learns of the restart by its next renewal")
	server := redistest.Start(t)
	until := watch(t, election.New(locktest.Session(t, server), "a"))
	leader := child(t, server, "leader")
	require.Equal(t, "leads", line(t, leader))
	l := until("leader")
	server.Kill()
	server.Restart()
	require.Equal(t, "over", line(t, leader))
	require.Equal(t, "leads", line(t, leader), "it campaigns again")
	for again := until("leader"); again.Token == l.Token; {
		again = until("leader")
	}
	leader.CloseInput()
	require.Zero(t, leader.Wait(limit))
}

// P9: elections work on every topology, whatever their names: keys and channels share a slot.
func TestAnElectionWorksEverywhere(t *testing.T) {
	t.Parallel()
	redistest.NeedServer(t)
	for _, starter := range redistest.Topologies() {
		t.Run(starter.Name, func(t *testing.T) {
			t.Parallel()
			top, err := starter.Start(redistest.WithFailoverAfter(time.Minute))
			require.NoError(t, err)
			t.Cleanup(top.Close)
			one, other := locktest.Session(t, top), locktest.Session(t, top)
			for _, name := range []string{"plain", "{tag}rest", "a{b}c", "{", "}{", "{}", "a}"} {
				play(t, one, other, name)
			}
		})
	}
}

// play hands an election over between two sessions, which both observe it.
func play(t *testing.T, one, other *signalbox.Session, name string) {
	t.Helper()
	mine, theirs := election.New(one, name, election.Value("mine")), election.New(other, name, election.Value("theirs"))
	until := watch(t, theirs)
	first := locktest.Must(t, mine.Campaign)
	require.Equal(t, first.Token(), until("mine").Token)
	next := locktest.LaterWith(locktest.Context(t), theirs.Campaign)
	require.NoError(t, first.SetValue(t.Context(), "changed"))
	require.Equal(t, first.Token(), until("changed").Token)
	require.NoError(t, mine.Health(t.Context()))
	require.NoError(t, first.Resign())
	second := locktest.MustHave(t, next)
	require.Greater(t, second.Token(), first.Token())
	require.Equal(t, second.Token(), until("theirs").Token)
	require.NoError(t, second.Resign())
	until("")
}
