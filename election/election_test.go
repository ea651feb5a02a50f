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
	"github.com/signalbox-go/signalbox/redisson"
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

// P9: what is no name, no option or no session is the error of every call, and sends nothing.
func TestABadElectionIsTheErrorOfEveryCall(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := locktest.Session(t, server)
	closed := signalbox.NewSession(server.Client(t, signalbox.Tune))
	require.NoError(t, closed.Close(t.Context()))
	for name, bad := range map[string]struct { //nolint:paralleltest // commands are counted on one server
		e    *election.Election
		want error
	}{
		"NoName":        {election.New(s, ""), signalbox.ErrBadName},
		"LongName":      {election.New(s, strings.Repeat("x", 513)), signalbox.ErrBadName},
		"LongValue":     {election.New(s, "a", election.Value(strings.Repeat("x", election.MaxValue+1))), signalbox.ErrBadOption},
		"FixedLease":    {election.New(s, "a", signalbox.WithFixedLease(time.Second)), signalbox.ErrBadOption},
		"MaxHold":       {election.New(s, "a", signalbox.WithMaxHold(time.Second)), signalbox.ErrBadOption},
		"Redisson":      {election.New(s, "a", signalbox.WithLayout(redisson.Layout())), signalbox.ErrBadOption},
		"StepDown":      {election.New(s, "a", election.StepDown(8*time.Second)), signalbox.ErrBadOption},
		"StepDownBelow": {election.New(s, "a", election.StepDown(-1)), signalbox.ErrBadOption},
		"StepDownLease": {election.New(s, "a", election.StepDown(time.Second), signalbox.WithRenewedLease(time.Second)), signalbox.ErrBadOption},
		"StepDownFirst": {election.New(s, "a", election.StepDown(2*time.Second), signalbox.WithFirstLease(3*time.Second)), signalbox.ErrBadOption},
		"ShortLease":    {election.New(s, "a", signalbox.WithRenewedLease(time.Millisecond)), signalbox.ErrBadOption},
		"NilSession":    {election.New(nil, "a"), signalbox.ErrBadOption},
		"Nil":           {nil, signalbox.ErrBadOption},
		"Zero":          {new(election.Election), signalbox.ErrBadOption},
		"ClosedSession": {election.New(closed, "a"), signalbox.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorIs(t, bad.e.Check(), bad.want)
			requireRefused(t.Context(), t, server, bad.e, bad.want)
		})
	}
	require.NoError(t, election.New(s, "a", nil, election.StepDown(0), election.Value(strings.Repeat("x", election.MaxValue)),
		signalbox.WithReplicas(1, time.Second), signalbox.WithTokenFloor(time.Hour), signalbox.WithLayout(signalbox.Native())).Check())
}

// requireRefused checks that every call of an election returns the error, and sends nothing.
func requireRefused(ctx context.Context, t *testing.T, server *redistest.Server, e *election.Election, want error) {
	t.Helper()
	lead := func(context.Context, election.Term) error { return errors.New("it leads") }
	require.Empty(t, server.SentBy(func() {
		term, err := e.Campaign(ctx)
		require.ErrorIs(t, err, want)
		require.Zero(t, term)
		l, err := e.Leader(ctx)
		require.ErrorIs(t, err, want)
		require.Zero(t, l)
		require.ErrorIs(t, e.Health(ctx), want)
		require.ErrorIs(t, e.Run(ctx, lead), want)
		require.ErrorIs(t, e.RunCallbacks(ctx, election.Callbacks{
			OnStartedLeading: func(context.Context) { t.Error("it leads") }, OnStoppedLeading: func() {},
		}), want)
		n := 0
		for l, err := range e.Observe(ctx) {
			n++
			require.ErrorIs(t, err, want)
			require.Zero(t, l)
		}
		require.Equal(t, 1, n)
	}))
}

// An ended context starts nothing and sends nothing; nor does a nil one, or one without a function.
func TestBadArgumentsAreRefused(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	e := election.New(locktest.Session(t, server), "a")
	requireRefused(locktest.Ended(), t, server, e, context.Canceled)
	requireRefused(nil, t, server, e, signalbox.ErrBadOption) //nolint:staticcheck // what is tested
	require.ErrorIs(t, e.Run(t.Context(), nil), signalbox.ErrBadOption)
	require.ErrorIs(t, e.RunCallbacks(t.Context(), election.Callbacks{}), signalbox.ErrBadOption)
	require.ErrorIs(t, e.RunCallbacks(t.Context(), election.Callbacks{OnStoppedLeading: func() {}}), signalbox.ErrBadOption)
	term := mustLead(t, e)
	require.ErrorIs(t, term.SetValue(nil, "x"), signalbox.ErrBadOption) //nolint:staticcheck // what is tested
	require.ErrorIs(t, term.SetValue(t.Context(), strings.Repeat("x", election.MaxValue+1)), signalbox.ErrBadOption)
	require.ErrorIs(t, term.SetValue(locktest.Ended(), "x"), context.Canceled)
	require.ErrorIs(t, context.Cause(term.Bind(nil)), signalbox.ErrBadOption) //nolint:staticcheck // what is tested
	require.NoError(t, term.Resign())
}

func TestTheZeroTermLeadsNothing(t *testing.T) {
	t.Parallel()
	var term election.Term
	require.Zero(t, term.Token())
	require.ErrorIs(t, term.Err(), signalbox.ErrNotHeld)
	require.ErrorIs(t, term.Resign(), signalbox.ErrNotHeld)
	require.ErrorIs(t, term.SetValue(t.Context(), "x"), signalbox.ErrNotHeld)
	require.ErrorIs(t, context.Cause(term.Bind(t.Context())), signalbox.ErrNotHeld)
	require.True(t, locktest.IsClosed(term.Done()))
	require.Zero(t, term.Deadline())
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
