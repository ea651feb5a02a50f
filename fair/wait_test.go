// SPDX-License-Identifier: Apache-2.0

package fair_test

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

// P10: the error says both that the wait is over and what the server said last.
func TestErrHeldIsJoinedWhereTheLastAnswerWasHeld(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	holder := mustLock(t, fair.New(newSession(t, server), "a"))
	stopped := errors.New("the request was dropped")
	for _, want := range []error{context.Canceled, stopped} {
		proxy := redistest.NewProxy(t, server.Addr())
		requests(proxy, scripts.FairLook)
		mu := fair.New(newSession(t, proxy), "a")
		ctx, cancel := context.WithCancelCause(t.Context())
		looks := proxy.Replies()
		waiting := queue(ctx, t, server, mu, "a", 1)
		await(t, "a look, after the answer", func() bool { return proxy.Replies() > looks })
		cancel(want)
		got := within(t, "the end of the wait", waiting)
		require.ErrorIs(t, got.err, signalbox.ErrHeld)
		require.ErrorIs(t, got.err, want)
		require.ErrorIs(t, got.err, context.Canceled)
		require.Equal(t, signalbox.Lease{}, got.lease)
		await(t, "the leaving", func() bool { return inLine(t, server, "a") == 0 })
	}
	require.NoError(t, holder.Unlock())
}

// P10: a bounded wait is a context with a deadline.
func TestErrHeldIsJoinedWithTheDeadlineBehindAHolderOfTheSession(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := fair.New(newSession(t, server), "a")
	lease := mustLock(t, mu)
	ctx, cancel := context.WithTimeout(t.Context(), moment)
	defer cancel()
	_, err := mu.Lock(ctx)
	require.ErrorIs(t, err, signalbox.ErrHeld)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, lease.Unlock())
	await(t, "the leaving", func() bool { return !isHeld(t, server, "a") && inLine(t, server, "a") == 0 })
}

// P10: a server that is away is waited for within the context, and named in the error. Nobody
// said that the lock is held.
func TestAnUnreachableServerIsWaitedForWithinTheContext(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	mu := fair.New(newSession(t, proxy), "a")
	require.NoError(t, mustLock(t, mu).Unlock())
	proxy.Refuse()
	proxy.CutAll()
	ctx, cancel := context.WithTimeout(t.Context(), moment)
	defer cancel()
	_, err := mu.Lock(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, signalbox.ErrHeld)
	var refused *net.OpError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "dial", refused.Op)

	waiting := lockLater(t.Context(), mu)
	proxy.Accept()
	require.NoError(t, mustHave(t, waiting).Unlock())
}

// endsBehind is a context that is found to have ended as soon as a proxy has had a request more. Whoever waits for the
// answer to that is not told.
type endsBehind struct {
	context.Context

	proxy  *redistest.Proxy
	before int
	end    context.CancelFunc
}

// Err implements context.Context.
func (c *endsBehind) Err() error {
	if c.proxy.Requests() > c.before {
		c.end()
	}
	return c.Context.Err()
}

// P10: an answer counts that was there before it was seen that the context has ended.
func TestErrHeldIsJoinedWhereTheContextEndsWithTheAnswer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	holder := mustLock(t, fair.New(newSession(t, server), "a"))
	proxy := redistest.NewProxy(t, server.Addr())
	requests(proxy, scripts.FairEnter)
	mu := fair.New(newSession(t, proxy), "a")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got := within(t, "the end of the wait", lockLater(&endsBehind{ctx, proxy, proxy.Requests(), cancel}, mu))
	require.ErrorIs(t, got.err, context.Canceled)
	require.ErrorIs(t, got.err, signalbox.ErrHeld)
	await(t, "the leaving", func() bool { return inLine(t, server, "a") == 0 })
	require.NoError(t, holder.Unlock())
}
