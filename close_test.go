// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"context"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// P2: Close waits for holders, whose leases live on, and can be entered again.
func TestCloseWaitsForHolders(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := locktest.SteadySession(t, server)
	mu := reentrant.New(s, "a")
	lease := locktest.Must(t, mu.Lock)
	ctx := locktest.Watch(locktest.Context(t))
	closed := later(func() error { return s.Close(ctx) })
	redistest.Receive(t, "Close waits", ctx.Waiting)
	again, err := mu.Lock(lease.Enter(t.Context()))
	require.NoError(t, err)
	require.NoError(t, lease.Unlock())
	require.False(t, locktest.IsClosed(closed))
	require.NoError(t, again.Err())
	require.NoError(t, again.Unlock())
	require.NoError(t, redistest.Receive(t, "Close", closed))
	require.Empty(t, held(t, server))
}

// P6: a second Close blocks until the first is done, within its own context.
func TestASecondCloseWaitsForTheFirst(t *testing.T) {
	t.Parallel()
	s := locktest.SteadySession(t, redistest.Start(t))
	lease := locktest.Must(t, reentrant.New(s, "a").Lock)
	ctx := locktest.Watch(locktest.Context(t))
	first := later(func() error { return s.Close(ctx) })
	redistest.Receive(t, "the first Close waits", ctx.Waiting)
	require.ErrorIs(t, s.Close(locktest.Ended()), context.Canceled)
	second := later(func() error { return s.Close(locktest.Context(t)) })
	require.False(t, locktest.IsClosed(first))
	require.False(t, locktest.IsClosed(second))
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Unlock())
	require.NoError(t, redistest.Receive(t, "the first Close", first))
	require.NoError(t, redistest.Receive(t, "the second Close", second))
}

// P10: a context that is nil, and a grace out of bounds, are bad arguments.
func TestCloseRefusesBadArguments(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := locktest.SteadySession(t, server)
	require.ErrorIs(t, s.Close(nil), signalbox.ErrBadOption) //nolint:staticcheck // the nil context is what is tested
	require.NoError(t, reentrant.New(s, "a").Check(), "it is not closed")
	for _, grace := range []time.Duration{-1, 0, 24*time.Hour + 1} {
		bad := locktest.SteadySession(t, server, signalbox.WithCloseGrace(grace))
		require.ErrorIs(t, reentrant.New(bad, "a").Check(), signalbox.ErrBadOption)
	}
	require.NoError(t, reentrant.New(locktest.SteadySession(t, server, signalbox.WithCloseGrace(24*time.Hour)), "a").Check())
}

func TestCloseOfANilSessionIsFine(t *testing.T) {
	t.Parallel()
	var none *signalbox.Session
	require.NoError(t, none.Close(t.Context()))
	require.NoError(t, signalbox.NewSession(nil).Close(t.Context()))
}

// connected returns the ids of the connections to a server, those that asked for them left out.
func connected(t *testing.T, server *redistest.Server) (ids []string) {
	t.Helper()
	list, _ := server.MustDo(t, "CLIENT", "LIST").(string)
	for line := range strings.Lines(list) {
		if id, _, _ := strings.Cut(line, " "); !strings.Contains(line, "cmd=client|list") {
			ids = append(ids, id)
		}
	}
	return ids
}

// P8: a client that was given stays open, one that was dialled is closed.
func TestCloseClosesTheClientThatItDialled(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t, signalbox.Tune)
	given := signalbox.NewSession(client)
	require.NoError(t, locktest.Must(t, reentrant.New(given, "a").Lock).Unlock())
	require.NoError(t, given.Close(t.Context()))
	require.NoError(t, client.Do(t.Context(), client.B().Ping().Build()).Error())
	client.Close() // or it might connect again meanwhile

	before := connected(t, server)
	dialled, err := signalbox.Dial(t.Context(), server.URL())
	require.NoError(t, err)
	require.NoError(t, locktest.Must(t, reentrant.New(dialled, "a").Lock).Unlock())
	others := func() int {
		return len(slices.DeleteFunc(connected(t, server), func(id string) bool { return slices.Contains(before, id) }))
	}
	require.Positive(t, others())
	require.NoError(t, dialled.Close(t.Context()))
	redistest.Await(t, "the end of what was dialled", func() bool { return others() == 0 })
}

// What serves the session's connections ends after them, also if another function panics, ends its goroutine, or has not returned.
func TestCloseCallsWhatWithOnCloseNames(t *testing.T) {
	t.Parallel()
	var calls [2]atomic.Int32
	var s *signalbox.Session
	second, closed := make(chan struct{}), make(chan error, 2)
	options := []signalbox.SessionOption{signalbox.WithLogger(slog.New(slog.DiscardHandler))}
	for _, f := range []func(){
		func() { calls[0].Add(1); <-second }, func() { panic("at the disco") }, runtime.Goexit, nil, func() { calls[1].Add(1); close(second) },
		func() { // the session is of no use any more, and Close in it ends with its context
			_, err := reentrant.New(s, "a").TryLock(t.Context())
			closed <- err
			closed <- s.Close(locktest.Ended())
		},
	} {
		options = append(options, signalbox.WithOnClose(f))
	}
	var err error
	s, err = signalbox.Dial(t.Context(), redistest.Start(t).URL(), options...)
	require.NoError(t, err)
	require.Zero(t, calls[0].Load()+calls[1].Load())
	require.NoError(t, s.Close(t.Context()))
	require.NoError(t, s.Close(t.Context()))
	redistest.Receive(t, "the call of the second", second)
	require.ErrorIs(t, redistest.Receive(t, "a lock of the closed session", closed), signalbox.ErrClosed)
	require.ErrorIs(t, redistest.Receive(t, "a Close of it", closed), context.Canceled)
	require.Equal(t, [2]int32{1, 1}, [2]int32{calls[0].Load(), calls[1].Load()})
}
