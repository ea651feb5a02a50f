// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"context"
	"errors"
	"fmt"
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

// P7: a closed session refuses everything, without a command.
func TestCloseRefusesNewWork(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := locktest.SteadySession(t, server, signalbox.WithPolling()) // it does not begin to listen where the machine stalls in between
	mu := reentrant.New(s, "a")
	lease := locktest.Must(t, mu.Lock)
	require.NoError(t, lease.Unlock())
	require.NoError(t, s.Close(t.Context()))
	require.Empty(t, server.SentBy(func() {
		require.ErrorIs(t, mu.Check(), signalbox.ErrClosed)
		_, err := mu.Lock(t.Context())
		require.ErrorIs(t, err, signalbox.ErrClosed)
		_, err = mu.TryLock(t.Context())
		require.ErrorIs(t, err, signalbox.ErrClosed)
		_, err = reentrant.New(s, "b").Lock(t.Context())
		require.ErrorIs(t, err, signalbox.ErrClosed)
		require.ErrorIs(t, lease.Unlock(), signalbox.ErrNotHeld)
	}))
}

// P6: Close wakes waiters, in the queue of the session and at the server.
func TestCloseWakesWaiters(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	elsewhere := locktest.Must(t, reentrant.New(locktest.SteadySession(t, server), "a").Lock)
	s := locktest.SteadySession(t, server)
	retrying := locktest.Enqueue(t.Context(), t, server, "a", reentrant.New(s, "a").Lock)
	behindIt := locktest.Queue(t.Context(), t, reentrant.New(s, "a").Lock)
	lease := locktest.Must(t, reentrant.New(s, "b").Lock)
	behindHolder := locktest.Queue(t.Context(), t, reentrant.New(s, "b").Lock)

	closed := later(func() error { return s.Close(locktest.Context(t)) })
	for _, waiting := range []<-chan locktest.Result[signalbox.Lease]{retrying, behindIt, behindHolder} {
		require.ErrorIs(t, locktest.MustFail(t, waiting), signalbox.ErrClosed)
	}
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Unlock())
	require.NoError(t, redistest.Receive(t, "Close", closed))
	require.NoError(t, elsewhere.Unlock())
	require.Empty(t, held(t, server))
}

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

// P2, P4: when its context ends, Close ends the leases, here first, and releases the keys. What the
// server did not learn of by then ends with its lease.
func TestCloseEndsLeasesWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := locktest.SteadySession(t, server)
	leases := make([]signalbox.Lease, 20)
	bound := make([]context.Context, len(leases))
	for i := range leases {
		mu := reentrant.New(s, fmt.Sprint(i), signalbox.WithRenewedLease(redistest.Patience/2))
		leases[i] = locktest.Must(t, mu.Lock)
		bound[i] = leases[i].Bind(t.Context())
	}
	gaveUp := errors.New("the deployment has waited long enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gaveUp)
	require.ErrorIs(t, s.Close(ctx), gaveUp)
	for i, lease := range leases {
		require.ErrorIs(t, lease.Err(), signalbox.ErrLost)
		require.ErrorIs(t, lease.Err(), signalbox.ErrClosed)
		require.True(t, locktest.IsClosed(lease.Done()))
		require.ErrorIs(t, context.Cause(bound[i]), signalbox.ErrClosed)
		require.ErrorIs(t, lease.Unlock(), signalbox.ErrLost)
	}
	redistest.Await(t, "the release of all keys", func() bool { return len(held(t, server)) == 0 })
}

// P4: goroutines that lock and unlock while the session is closed under them end, and leave no key
// behind, whatever was on its way: by the time that Close and they have returned.
func TestCloseUnderLoadLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, names := range []int{1, 8, 64} {
		server := redistest.Start(t)
		s := locktest.SteadySession(t, server)
		const n = 64
		begun, ends := make(chan struct{}, n), make(chan error, n)
		for i := range n {
			mu := reentrant.New(s, fmt.Sprint(i%names))
			go func() { ends <- lockUntilRefused(mu, begun) }()
		}
		for range n {
			redistest.Receive(t, "a goroutine at work", begun)
		}
		require.NoError(t, s.Close(locktest.Context(t)))
		for range n {
			require.ErrorIs(t, redistest.Receive(t, "the end of a goroutine", ends), signalbox.ErrClosed)
		}
		require.Empty(t, held(t, server), "%d names", names)
	}
}

func TestCloseTwiceIsFine(t *testing.T) {
	t.Parallel()
	s := locktest.SteadySession(t, redistest.Start(t))
	lease := locktest.Must(t, reentrant.New(s, "a").Lock)
	require.Error(t, s.Close(locktest.Ended()))
	require.ErrorIs(t, lease.Err(), signalbox.ErrLost)
	require.NoError(t, s.Close(t.Context()))
	require.NoError(t, s.Close(locktest.Ended()))
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

// lockUntilRefused locks and unlocks until one of both fails, and returns why.
func lockUntilRefused(mu *reentrant.Lock, begun chan<- struct{}) error {
	begun <- struct{}{}
	for {
		lease, err := mu.Lock(context.Background())
		if err == nil {
			err = lease.Unlock()
		}
		if err != nil {
			return err
		}
	}
}

// P4: a try that is on its way when the session closes leaves no key, though no call waits for its reply
// any more.
func TestCloseUndoesATryThatIsOnItsWay(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	s := locktest.SteadySession(t, proxy)
	mu := reentrant.New(s, "a")
	require.NoError(t, locktest.Must(t, mu.Lock).Unlock())
	sent, goOn := make(chan struct{}), make(chan struct{})
	var first atomic.Bool
	proxy.OnRequest(func(int, []string) {
		if first.CompareAndSwap(false, true) { // the second is what takes the try back
			close(sent)
			<-goOn
		}
	})
	trying := later(func() error {
		_, err := mu.Lock(context.Background())
		return err
	})
	redistest.Receive(t, "a try on its way", sent)
	closed := later(func() error { return s.Close(t.Context()) })
	redistest.Await(t, "a session that is closed", func() bool { return mu.Check() != nil })
	close(goOn)
	require.NoError(t, redistest.Receive(t, "the end of Close", closed))
	require.ErrorIs(t, redistest.Receive(t, "the reply", trying), signalbox.ErrClosed)
	require.Empty(t, held(t, server))
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
