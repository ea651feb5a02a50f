// SPDX-License-Identifier: Apache-2.0

package fair_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/locktest"
	"github.com/signalbox-go/signalbox/internal/redistest"
)

// panicOf answers the error that a function panics with, nil if it does not panic.
func panicOf(do func()) (err error) {
	defer func() { err, _ = recover().(error) }()
	do()
	return nil
}

// P1: goroutines that share a Locker exclude each other, and hold the lock.
func TestALockerExcludesGoroutines(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	locker := fair.New(locktest.SteadySession(t, server), "a").Locker(t.Context())
	count := 0
	var goroutines sync.WaitGroup
	for range 8 {
		goroutines.Go(func() {
			for range 10 {
				locker.Lock()
				count++
				if !isHeld(t, server, "a") {
					t.Error("not held")
				}
				locker.Unlock()
			}
		})
	}
	goroutines.Wait()
	require.Equal(t, 8*10, count)
	require.False(t, isHeld(t, server, "a"))
}

// P2: what Unlock cannot answer goes to OnLost.
func TestALockerTellsOfALoss(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	locker := fair.New(locktest.SteadySession(t, server), "a").Locker(t.Context())
	var told error
	locker.OnLost(func(err error) { told = err })
	locker.Lock()
	server.MustDo(t, "DEL", locktest.Key("a"))
	locker.Unlock()
	require.ErrorIs(t, told, signalbox.ErrLost)
}

func TestALockerPanicsForMisuse(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := locktest.SteadySession(t, server)
	server.MustDo(t, "SET", locktest.Key("other"), "x")
	for name, misuse := range map[string]struct {
		locker *signalbox.Locker
		want   error
	}{
		"EndedContext": {fair.New(s, "a").Locker(locktest.Ended()), context.Canceled},
		"WrongKind":    {fair.New(s, "other").Locker(t.Context()), signalbox.ErrWrongKind},
	} {
		for range 2 { // the first panic left nothing locked
			require.ErrorIs(t, panicOf(misuse.locker.Lock), misuse.want, name)
		}
		require.ErrorIs(t, panicOf(misuse.locker.Unlock), signalbox.ErrNotHeld, name)
	}
}

func TestDoHoldsTheLockWhileItsFunctionRuns(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := fair.New(locktest.SteadySession(t, server), "a")
	failed := errors.New("no funds")
	var inside context.Context
	err := mu.Do(t.Context(), func(ctx context.Context, lease signalbox.Lease) error {
		inside = ctx
		require.NoError(t, lease.Err())
		require.True(t, isHeld(t, server, "a"))
		require.NoError(t, mu.Do(ctx, func(_ context.Context, again signalbox.Lease) error {
			require.Equal(t, lease.Token(), again.Token())
			return nil
		}))
		return failed
	})
	require.EqualError(t, err, "no funds")
	require.False(t, isHeld(t, server, "a"))
	require.ErrorIs(t, context.Cause(inside), signalbox.ErrReleased)
}

// P4: a panic gives the lock to the next, and goes on; so does the end of the goroutine.
func TestDoGivesBackWhateverItsFunctionDoes(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu, other := fair.New(locktest.SteadySession(t, server), "a"), fair.New(locktest.SteadySession(t, server), "a")
	var waiting <-chan locktest.Result[signalbox.Lease]
	require.PanicsWithValue(t, "no funds", func() {
		_ = mu.Do(t.Context(), func(context.Context, signalbox.Lease) error {
			waiting = queue(t.Context(), t, server, other, "a", 1)
			panic("no funds")
		})
	})
	lease := locktest.MustHave(t, waiting)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = mu.Do(t.Context(), func(context.Context, signalbox.Lease) error {
			runtime.Goexit()
			return nil
		})
	}()
	redistest.Await(t, "a place in line", func() bool { return inLine(t, server, "a") == 1 })
	require.NoError(t, lease.Unlock())
	redistest.Receive(t, "the end of the goroutine", ended)
	require.False(t, isHeld(t, server, "a"))
}

// P2: work that was not protected to its end says so, beside its own error.
func TestDoJoinsTheLossOfItsLease(t *testing.T) {
	t.Parallel()
	mu := fair.New(locktest.SteadySession(t, redistest.Start(t)), "a")
	failed := errors.New("no funds")
	err := mu.Do(t.Context(), func(ctx context.Context, _ signalbox.Lease) error {
		require.NoError(t, mu.ForceUnlock(t.Context()))
		redistest.Receive(t, "the end of the context", ctx.Done())
		require.ErrorIs(t, context.Cause(ctx), signalbox.ErrLost)
		return failed
	})
	require.ErrorIs(t, err, signalbox.ErrLost)
	require.ErrorIs(t, err, failed)
}
