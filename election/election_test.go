// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/election"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// P1: an election and a lock of one name exclude each other, and the lock's ForceUnlock ends a term at once.
func TestAnElectionIsTheFairLockOfItsName(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	e, mu := election.New(locktest.Session(t, server), "a"), fair.New(locktest.Session(t, server), "a")
	lease := locktest.Must(t, mu.Lock)
	l, err := e.Leader(t.Context())
	require.NoError(t, err)
	require.Equal(t, lease.Token(), l.Token)
	term := mustCampaign(locktest.Context(t), t, server, e, 1)
	require.NoError(t, lease.Unlock())
	led := locktest.MustHave(t, term)
	_, err = mu.TryLock(t.Context())
	require.ErrorIs(t, err, signalbox.ErrHeld)
	require.NoError(t, mu.ForceUnlock(t.Context()))
	redistest.Receive(t, "the end of the term", led.Done())
	require.ErrorIs(t, led.Err(), signalbox.ErrLost)
	require.ErrorIs(t, led.Resign(), signalbox.ErrLost)
}

// A term belongs to its Campaign, also if the context carries a lease of the lock.
func TestATermIsNotEnteredAgain(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := locktest.Session(t, server)
	lease := locktest.Must(t, fair.New(s, "a").Lock)
	ctx, cancel := context.WithCancel(lease.Enter(locktest.Context(t)))
	term := mustCampaign(ctx, t, server, election.New(s, "a"), 1)
	require.Empty(t, term)
	cancel()
	require.ErrorIs(t, locktest.MustFail(t, term), context.Canceled)
}

// P2: what is bound to a term has ended when Resign returns, and before the next leader begins.
func TestContextsEndWithTheTerm(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	term := mustLead(t, election.New(locktest.Session(t, server), "a"))
	parent, cancel := context.WithCancel(t.Context())
	one, other := term.Bind(t.Context()), term.Bind(parent)
	require.NoError(t, one.Err())
	require.Equal(t, one.Done(), term.Bind(context.WithValue(t.Context(), term, 1)).Done(), "bound for each piece of work, a term of days keeps nothing for those that are over")
	cancel()
	require.ErrorIs(t, other.Err(), context.Canceled)
	require.Equal(t, context.Canceled, context.Cause(other))
	require.False(t, locktest.IsClosed(one.Done()))
	require.True(t, term.Deadline().After(time.Now()))
	require.NoError(t, term.Resign())
	require.ErrorIs(t, one.Err(), context.Canceled)
	require.ErrorIs(t, context.Cause(one), signalbox.ErrReleased)
	redistest.Receive(t, "the end of the term", term.Done())
	require.ErrorIs(t, context.Cause(term.Bind(t.Context())), signalbox.ErrReleased)
	require.Zero(t, term.Deadline())
	require.ErrorIs(t, term.Resign(), signalbox.ErrNotHeld)
	require.ErrorIs(t, term.SetValue(t.Context(), "x"), signalbox.ErrReleased)
}

// P9: options that contradict each other are the error of every call, and what a call cannot do without is asked for.
func TestBadArgumentsAreRefused(t *testing.T) {
	t.Parallel()
	s := locktest.Session(t, redistest.Start(t))
	long := strings.Repeat("x", election.MaxValue+1)
	for name, bad := range map[string]*election.Election{
		"LongValue":     election.New(s, "a", election.Value(long)),
		"StepDownLease": election.New(s, "a", election.StepDown(time.Second), signalbox.WithRenewedLease(time.Second)),
		"StepDownFirst": election.New(s, "a", election.StepDown(2*time.Second), signalbox.WithFirstLease(3*time.Second)),
	} {
		require.ErrorIs(t, bad.Check(), signalbox.ErrBadOption, name)
	}
	e := election.New(s, "a", nil, election.StepDown(0), election.Value(long[1:]))
	require.ErrorIs(t, e.Run(t.Context(), nil), signalbox.ErrBadOption)
	require.ErrorIs(t, e.RunCallbacks(t.Context(), election.Callbacks{}), signalbox.ErrBadOption)
	require.ErrorIs(t, e.RunCallbacks(t.Context(), election.Callbacks{OnStoppedLeading: func() {}}), signalbox.ErrBadOption)
	term := mustLead(t, e)
	require.ErrorIs(t, term.SetValue(t.Context(), long), signalbox.ErrBadOption)
	require.ErrorIs(t, term.SetValue(locktest.Ended(), "x"), context.Canceled)
	require.ErrorIs(t, context.Cause(term.Bind(nil)), signalbox.ErrBadOption) //nolint:staticcheck // what is tested
	require.NoError(t, term.Resign())
}

// P9: a key of another program is left alone, and is the error of the calls that meet it.
func TestAForeignKeyIsErrWrongKindAndUntouched(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	e := election.New(locktest.Session(t, server), "a")
	term := mustLead(t, e)
	for _, foreign := range [][]any{{"SET", valueKey, "foreign"}, {"SADD", valueKey, "foreign"}} {
		redistest.Await(t, "the key of another program", func() bool { // after the first write of the term
			server.MustDo(t, "DEL", valueKey)
			server.MustDo(t, foreign...)
			return errors.Is(term.SetValue(t.Context(), "x"), signalbox.ErrWrongKind)
		})
		was := server.MustDo(t, "DUMP", valueKey)
		_, err := e.Leader(t.Context())
		require.ErrorIs(t, err, signalbox.ErrWrongKind)
		require.ErrorIs(t, e.Health(t.Context()), signalbox.ErrWrongKind)
		for _, err := range e.Observe(t.Context()) {
			require.ErrorIs(t, err, signalbox.ErrWrongKind)
		}
		require.Equal(t, was, server.MustDo(t, "DUMP", valueKey))
	}
	require.NoError(t, term.Resign())
	require.EqualValues(t, 1, server.MustDo(t, "EXISTS", valueKey))
	server.MustDo(t, "DEL", valueKey)
	server.MustDo(t, "SET", "sb:{a}:lock", "foreign")
	_, err := e.Leader(t.Context())
	require.ErrorIs(t, err, signalbox.ErrWrongKind)
	require.ErrorIs(t, e.Run(t.Context(), func(context.Context, election.Term) error { return nil }), signalbox.ErrWrongKind)
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

// P7: a term costs a script and a write of its value, a resignation two scripts, and each question two scripts in one
// round trip.
func TestWhatATermCosts(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	redistest.LoadScripts(t, server)
	// Nothing is renewed meanwhile, and no subscription asks whether the hold is still there.
	e := election.New(locktest.Session(t, server, signalbox.WithPolling()), "a", signalbox.WithRenewedLease(24*time.Hour))
	term := mustLead(t, e) // the first call of a session asks for the time as well
	redistest.Await(t, "the value", func() bool { return locktest.Count(t, server, "EXISTS", valueKey) == 1 })
	costs := func(scripts int64, do func()) {
		t.Helper()
		sent := server.SentBy(do)
		require.Equal(t, scripts, sent["evalsha"], sent)
	}
	costs(1, func() { require.NoError(t, term.SetValue(t.Context(), "x")) })
	costs(2, func() { require.NoError(t, e.Health(t.Context())) })
	costs(2, func() {
		_, err := e.Leader(t.Context())
		require.NoError(t, err)
	})
	costs(2, func() { require.NoError(t, term.Resign()) })
	costs(2, func() {
		term = mustLead(t, e)
		redistest.Await(t, "the value", func() bool { return locktest.Count(t, server, "EXISTS", valueKey) == 1 })
	})
	require.NoError(t, term.Resign())
}
