// SPDX-License-Identifier: Apache-2.0

package reentrant_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/locktest"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

func TestDoHoldsTheLockWhileItsFunctionRuns(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := reentrant.New(locktest.SteadySession(t, server), "a")
	failed := errors.New("no funds")
	var inside context.Context
	err := mu.Do(t.Context(), func(ctx context.Context, lease signalbox.Lease) error {
		inside = ctx
		require.NoError(t, ctx.Err())
		require.NoError(t, lease.Err())
		require.NotZero(t, lease.Token())
		require.True(t, isHeld(t, server, "a"))
		_, err := mu.TryLock(t.Context())
		require.ErrorIs(t, err, signalbox.ErrHeld)
		// Its context carries the lease.
		require.NoError(t, mu.Do(ctx, func(_ context.Context, again signalbox.Lease) error {
			require.Equal(t, lease.Token(), again.Token())
			return nil
		}))
		require.True(t, isHeld(t, server, "a"))
		return failed
	})
	require.Equal(t, failed, errorsIn(err)[0])
	require.Len(t, errorsIn(err), 1)
	require.False(t, isHeld(t, server, "a"))
	require.ErrorIs(t, context.Cause(inside), signalbox.ErrReleased)
}

// errorsIn answers the errors that were joined.
func errorsIn(err error) []error {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		return joined.Unwrap()
	}
	return []error{err}
}

// P4: a panic gives the lock back, and goes on.
func TestDoGivesBackWhenItsFunctionPanics(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := reentrant.New(locktest.SteadySession(t, server), "a")
	require.PanicsWithValue(t, "no funds", func() {
		_ = mu.Do(t.Context(), func(context.Context, signalbox.Lease) error { panic("no funds") })
	})
	require.False(t, isHeld(t, server, "a"))
	require.NoError(t, locktest.Must(t, mu.Lock).Unlock())
}

// P4: so does the end of the goroutine.
func TestDoGivesBackWhenItsGoroutineEnds(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := reentrant.New(locktest.SteadySession(t, server), "a")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = mu.Do(t.Context(), func(context.Context, signalbox.Lease) error {
			runtime.Goexit()
			return nil
		})
	}()
	redistest.Receive(t, "the end of the goroutine", ended)
	require.False(t, isHeld(t, server, "a"))
}

// P4: a function that does not get the lock does not run.
func TestDoRunsNothingWithoutTheLock(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	lease := locktest.Must(t, reentrant.New(locktest.SteadySession(t, server), "a").Lock)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	err := reentrant.New(locktest.SteadySession(t, server), "a").Do(ctx, func(context.Context, signalbox.Lease) error {
		t.Error("the function ran without the lock")
		return nil
	})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, lease.Unlock())
}

// P8: a lease that the function unlocked itself is ErrNotHeld at the end, which hides nothing.
func TestDoTellsOfALeaseThatItsFunctionUnlocked(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := reentrant.New(locktest.SteadySession(t, server), "a")
	err := mu.Do(t.Context(), func(_ context.Context, lease signalbox.Lease) error { return lease.Unlock() })
	require.ErrorIs(t, err, signalbox.ErrNotHeld)
	require.False(t, isHeld(t, server, "a"))
}

// P2: work that was not protected to its end says so, beside its own error.
func TestDoJoinsTheLossOfItsLease(t *testing.T) {
	t.Parallel()
	mu := reentrant.New(locktest.SteadySession(t, redistest.Start(t)), "a")
	failed := errors.New("no funds")
	for _, own := range []error{nil, failed} {
		err := mu.Do(t.Context(), func(ctx context.Context, _ signalbox.Lease) error {
			require.NoError(t, mu.ForceUnlock(t.Context()))
			redistest.Receive(t, "the end of the context", ctx.Done())
			require.ErrorIs(t, context.Cause(ctx), signalbox.ErrLost)
			return own
		})
		require.ErrorIs(t, err, signalbox.ErrLost)
		if own != nil {
			require.ErrorIs(t, err, own)
		}
		var op *signalbox.OpError
		require.ErrorAs(t, err, &op)
		require.Equal(t, "unlock", op.Op)
	}
}
