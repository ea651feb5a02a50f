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
