// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/election"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

var errWork = errors.New("the work failed")

// P2: the lease is released when lead has returned, and not before, though its context ended long ago.
func TestRunReleasesTheLeaseWhenLeadHasReturned(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	e, other := election.New(locktest.Session(t, server), "a"), election.New(locktest.Session(t, server), "a")
	ctx, cancel := context.WithCancel(t.Context())
	began, stops, mayStop := make(chan election.Term, 1), make(chan struct{}), make(chan struct{})
	returned := make(chan error, 1)
	go func() {
		returned <- e.Run(ctx, func(ctx context.Context, term election.Term) error {
			began <- term
			<-ctx.Done()
			close(stops)
			<-mayStop
			return ctx.Err()
		})
	}()
	term := redistest.Receive(t, "the term", began)
	next := mustCampaign(locktest.Context(t), t, server, other, 1)
	cancel()
	redistest.Receive(t, "the end of the context", stops)
	require.NoError(t, term.Err(), "it leads until lead has returned")
	require.Empty(t, next)
	require.Equal(t, 1, locktest.Tickets(t, server, "a"))
	close(mayStop)
	require.Greater(t, locktest.MustHave(t, next).Token(), term.Token())
	err := redistest.Receive(t, "the return of Run", returned)
	require.ErrorIs(t, err, context.Canceled)
	require.EqualError(t, err, `signalbox: run "a": context canceled`)
	require.ErrorIs(t, term.Err(), signalbox.ErrReleased)
}

// Run returns what lead returns while its term lasts, and has resigned by then.
func TestRunReturnsWhatLeadReturns(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	e := election.New(locktest.Session(t, server), "a")
	for name, c := range map[string]struct { //nolint:paralleltest // one election
		lead func(context.Context, election.Term) error
		want error
	}{
		"Nil":      {func(context.Context, election.Term) error { return nil }, nil},
		"Error":    {func(context.Context, election.Term) error { return errWork }, errWork},
		"Resigned": {func(_ context.Context, term election.Term) error { return term.Resign() }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorIs(t, e.Run(t.Context(), c.lead), c.want)
			_, err := e.Leader(t.Context())
			require.ErrorIs(t, err, signalbox.ErrNotHeld)
		})
	}
	require.PanicsWithValue(t, "panic", func() {
		_ = e.Run(t.Context(), func(context.Context, election.Term) error { panic("panic") })
	})
	_, err := e.Leader(t.Context())
	require.ErrorIs(t, err, signalbox.ErrNotHeld)
}

// The callbacks are called as in Kubernetes: a term lasts though OnStartedLeading has returned, and all processes hear
// of a new leader.
func TestCallbacksAreCalled(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	type callback struct{ who, what string }
	called := make(chan callback, 10)
	run := func(ctx context.Context, who string) <-chan error {
		e := election.New(locktest.Session(t, server, signalbox.WithLabel(who)), "a")
		returned := make(chan error, 1)
		go func() {
			returned <- e.RunCallbacks(ctx, election.Callbacks{
				OnStartedLeading: func(context.Context) { called <- callback{who, "started"} },
				OnStoppedLeading: func() { called <- callback{who, "stopped"} },
				OnNewLeader:      func(identity string) { called <- callback{who, identity} },
			})
		}()
		return returned
	}
	two := func() []callback {
		return []callback{redistest.Receive(t, "a call", called), redistest.Receive(t, "a call", called)}
	}
	first := run(ctx, "first")
	require.ElementsMatch(t, []callback{{"first", "started"}, {"first", "first"}}, two())
	elsewhere, stop := context.WithCancel(t.Context())
	second := run(elsewhere, "second")
	require.Equal(t, callback{"second", "first"}, redistest.Receive(t, "a call", called))
	redistest.Await(t, "a ticket in the queue", func() bool { return locktest.Tickets(t, server, "a") == 1 })
	cancel()
	require.Equal(t, callback{"first", "stopped"}, redistest.Receive(t, "a call", called))
	require.ErrorIs(t, redistest.Receive(t, "the return", first), context.Canceled)
	require.ElementsMatch(t, []callback{{"second", "started"}, {"second", "second"}}, two())
	stop()
	require.Equal(t, callback{"second", "stopped"}, redistest.Receive(t, "a call", called))
	require.ErrorIs(t, redistest.Receive(t, "the return", second), context.Canceled)
	require.Empty(t, called)
}
