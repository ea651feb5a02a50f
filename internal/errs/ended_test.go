// SPDX-License-Identifier: Apache-2.0

package errs_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/errs"
)

func requireNoContexts(t *testing.T, err error) {
	t.Helper()
	require.Error(t, err)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, context.Canceled)
}

func TestOwnTimeLimitIsNoDeadlineOfTheCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := errs.WithTimeout(t.Context(), time.Second)
		defer cancel()
		child, stop := context.WithCancel(ctx)
		defer stop()
		<-child.Done()
		for _, at := range []context.Context{ctx, child} {
			err := errs.OfCall(at, at.Err())
			requireNoContexts(t, err)
			require.ErrorIs(t, err, errs.ErrNoReply)
			require.EqualError(t, err, "no reply from the server within 1s")
		}
	})
}

// An attempt to connect may have said already that there was no reply.
func TestNoReplyIsSaidOnce(t *testing.T) {
	t.Parallel()
	silent := fmt.Errorf("%w: the server a:1: it says nothing: %w", errs.ErrNoReply, os.ErrDeadlineExceeded)
	err := errs.OfCall(t.Context(), silent)
	requireNoContexts(t, err)
	require.ErrorIs(t, err, errs.ErrNoReply)
	require.EqualError(t, err, silent.Error())
}

func TestOwnCancellationIsItsReason(t *testing.T) {
	t.Parallel()
	ctx, cancel := errs.WithCancel(t.Context(), errGone)
	cancel()
	cancel()
	require.Equal(t, errGone, errs.OfCall(ctx, ctx.Err()))
}

func TestEndOfTheCallersContextIsKept(t *testing.T) {
	t.Parallel()
	cancelled, cancel := context.WithCancelCause(t.Context())
	cancel(errGone)
	late, stop := context.WithDeadline(t.Context(), time.Now())
	defer stop()
	for _, ctx := range []context.Context{cancelled, late} {
		within, done := errs.WithTimeout(ctx, time.Hour)
		defer done()
		require.Equal(t, ctx.Err(), errs.OfCall(within, within.Err()))
		wrapped := fmt.Errorf("dial: %w", ctx.Err())
		require.Equal(t, wrapped, errs.OfCall(ctx, wrapped))
	}
	require.ErrorIs(t, errs.Ended(cancelled), context.Canceled)
	require.ErrorIs(t, errs.Ended(cancelled), errGone)
	require.EqualError(t, errs.Ended(cancelled), "context canceled; gone")
	require.Equal(t, context.DeadlineExceeded, errs.Ended(late))
}

// The client has time limits of its own, and calls share an attempt to connect, which one of them
// may have cancelled.
func TestTimeLimitOfTheClientIsNoDeadlineOfTheCaller(t *testing.T) {
	t.Parallel()
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		ctx context.Context
		err error
	}{
		{t.Context(), context.DeadlineExceeded},
		{t.Context(), context.Canceled},
		{cancelled, context.DeadlineExceeded},
	} {
		at := &net.OpError{Op: "dial", Net: "tcp", Err: c.err}
		err := errs.OfCall(c.ctx, fmt.Errorf("connect: %w", at))
		requireNoContexts(t, err)
		require.ErrorIs(t, err, errs.ErrNoReply)
		var found *net.OpError
		require.ErrorAs(t, err, &found)
		require.Same(t, at, found)
	}
	require.NoError(t, errs.OfCall(cancelled, nil))
	require.Equal(t, errGone, errs.OfCall(cancelled, errGone))
}

// earlyDoneContext is a context whose Done is closed before Err says why.
type earlyDoneContext struct{ context.Context }

func (earlyDoneContext) Done() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

// A caller that got no error would believe that it has the lock.
func TestAContextThatHasEndedAlwaysHasAnError(t *testing.T) {
	t.Parallel()
	ctx := earlyDoneContext{context.Background()}
	require.NoError(t, ctx.Err())
	require.ErrorIs(t, errs.OfContext(ctx), context.Canceled)
	require.ErrorIs(t, errs.Ended(ctx), context.Canceled)
}
