// SPDX-License-Identifier: Apache-2.0

package fair_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

// P10: the error says both that the wait is over and what the server said last.
func TestErrHeldIsJoinedIfTheLastReplyWasHeld(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	holder := locktest.Must(t, fair.New(locktest.SteadySession(t, server), "a").Lock)
	stopped := errors.New("the request was dropped")
	for _, want := range []error{context.Canceled, stopped} {
		proxy := redistest.NewProxy(t, server.Addr())
		proxy.SetMatch(locktest.RunsScript(scripts.LockPoll))
		mu := fair.New(locktest.SteadySession(t, proxy), "a")
		ctx, cancel := context.WithCancelCause(t.Context())
		replies := proxy.Replies()
		waiting := locktest.Enqueue(ctx, t, server, "a", mu.Lock)
		redistest.Await(t, "a poll, after the reply", func() bool { return proxy.Replies() > replies })
		cancel(want)
		got := redistest.Receive(t, "the end of the wait", waiting)
		require.ErrorIs(t, got.Err, signalbox.ErrHeld)
		require.ErrorIs(t, got.Err, want)
		require.ErrorIs(t, got.Err, context.Canceled)
		require.Equal(t, signalbox.Lease{}, got.Value)
		redistest.Await(t, "the end of the ticket", func() bool { return locktest.Tickets(t, server, "a") == 0 })
	}
	require.NoError(t, holder.Unlock())
}

// endsBehind is a context that ends when the proxy has had one more request. So the call does not see that
// request's reply before its context has ended.
type endsBehind struct {
	context.Context

	proxy  *redistest.Proxy
	before int
	end    context.CancelFunc
}

// Err implements context.Context.
func (e *endsBehind) Err() error {
	if e.proxy.Requests() > e.before {
		e.end()
	}
	return e.Context.Err()
}

// P10: a reply counts that arrived before the call noticed the end of its context.
func TestErrHeldIsJoinedIfTheContextEndsWithTheReply(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	holder := locktest.Must(t, fair.New(locktest.SteadySession(t, server), "a").Lock)
	proxy := redistest.NewProxy(t, server.Addr())
	proxy.SetMatch(locktest.RunsScript(scripts.LockEnter))
	mu := fair.New(locktest.SteadySession(t, proxy), "a")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got := redistest.Receive(t, "the end of the wait", locktest.LaterWith(&endsBehind{ctx, proxy, proxy.Requests(), cancel}, mu.Lock))
	require.ErrorIs(t, got.Err, context.Canceled)
	require.ErrorIs(t, got.Err, signalbox.ErrHeld)
	redistest.Await(t, "the end of the ticket", func() bool { return locktest.Tickets(t, server, "a") == 0 })
	require.NoError(t, holder.Unlock())
}
