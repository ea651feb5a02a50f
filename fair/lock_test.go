// SPDX-License-Identifier: Apache-2.0

package fair_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/locktest"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

// P1, P3: whoever is inside is alone, and has a greater token than everybody before.
func TestHoldersOfOneNameDoNotOverlap(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	const sessions, goroutines, rounds = 4, 4, 30
	var inside atomic.Int32
	var last uint64 // guarded by the lock under test
	var all sync.WaitGroup
	for range sessions {
		mu := fair.New(locktest.SteadySession(t, server), "order/42")
		for range goroutines {
			all.Go(func() {
				for range rounds {
					err := mu.Do(t.Context(), func(_ context.Context, lease signalbox.Lease) error {
						if inside.Add(1) != 1 {
							return errors.New("not alone")
						}
						defer inside.Add(-1)
						if lease.Token() <= last {
							return errors.New("the token is not greater than that of the last holder")
						}
						last = lease.Token()
						return nil
					})
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	all.Wait()
	require.Zero(t, inLine(t, server, "order/42"))
	for _, key := range server.Keys("*") {
		require.Positive(t, locktest.Integer(t, server.MustDo(t, "PTTL", key)), "%s has no end", key)
	}
}

// Order: first in, first out, over sessions and within them.
func TestTheLockIsGivenInTheOrderInWhichItWasAskedFor(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mus := []*fair.Lock{fair.New(locktest.SteadySession(t, server), "a"), fair.New(locktest.SteadySession(t, server), "a"), fair.New(locktest.SteadySession(t, server), "a")}
	lease := locktest.Must(t, mus[0].Lock)
	var waiting []<-chan locktest.Result[signalbox.Lease]
	for n := range 15 {
		waiting = append(waiting, queue(t.Context(), t, server, mus[n*n%3], "a", n+1))
	}
	for n, next := range waiting {
		require.NoError(t, lease.Unlock())
		lease = locktest.MustHave(t, next)
		for _, later := range waiting[n+1:] {
			require.False(t, locktest.IsClosed(later))
		}
	}
	require.NoError(t, lease.Unlock())
}

// Order: who leaves stands in nobody's way, and who comes again stands at the end.
func TestWhoLeavesAndComesAgainStandsAtTheEnd(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	holder, one, other := fair.New(locktest.SteadySession(t, server), "a"), fair.New(locktest.SteadySession(t, server), "a"), fair.New(locktest.SteadySession(t, server), "a")
	lease := locktest.Must(t, holder.Lock)
	ctx, cancel := context.WithCancel(t.Context())
	leaves := queue(ctx, t, server, one, "a", 1)
	stays := queue(t.Context(), t, server, other, "a", 2)
	cancel()
	require.ErrorIs(t, redistest.Receive(t, "the end of the wait", leaves).Err, context.Canceled)
	redistest.Await(t, "the leaving", func() bool { return inLine(t, server, "a") == 1 })
	comes := queue(t.Context(), t, server, one, "a", 2)
	require.NoError(t, lease.Unlock())
	lease = locktest.MustHave(t, stays)
	require.False(t, locktest.IsClosed(comes))
	require.NoError(t, lease.Unlock())
	require.NoError(t, locktest.MustHave(t, comes).Unlock())
}

// P6: a release tells the next one, long before it would look by itself.
func TestALockIsTakenAsSoonAsItIsReleasedElsewhere(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	holder, mu := fair.New(locktest.SteadySession(t, server), "a"), fair.New(locktest.SteadySession(t, proxy), "a")
	proxy.SetMatch(locktest.Runs(scripts.FairLook))
	redistest.Await(t, "a grant of which a message told, and no look", func() bool {
		lease := locktest.Must(t, holder.Lock)
		waiting := queue(t.Context(), t, server, mu, "a", 1)
		redistest.Await(t, "a subscription", func() bool {
			channels, _ := server.MustDo(t, "PUBSUB", "CHANNELS", "sb:grants:*").([]any)
			return len(channels) == 1
		})
		before := proxy.Requests()
		require.NoError(t, lease.Unlock())
		next := locktest.MustHave(t, waiting)
		require.Greater(t, next.Token(), lease.Token())
		require.NoError(t, next.Unlock())
		return proxy.Requests() == before
	})
}

// P1: locks of one name in one session are the same lock.
func TestLocksOfOneNameInOneSessionAreOneLock(t *testing.T) {
	t.Parallel()
	s := locktest.SteadySession(t, redistest.Start(t))
	one, other := fair.New(s, "order/42"), fair.New(s, "order/42")
	lease := locktest.Must(t, one.Lock)
	_, err := other.TryLock(t.Context())
	require.ErrorIs(t, err, signalbox.ErrHeld)
	again, err := other.Lock(lease.Enter(t.Context()))
	require.NoError(t, err)
	require.NoError(t, lease.Unlock())
	require.NoError(t, again.Unlock())
}

func TestTryLockAnswersErrHeldWithTheNameAndTheOperation(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	holder := locktest.Must(t, fair.New(locktest.SteadySession(t, server), "a").Lock)
	lease, err := fair.New(locktest.SteadySession(t, server), "a").TryLock(t.Context())
	require.ErrorIs(t, err, signalbox.ErrHeld)
	var op *signalbox.OpError
	require.ErrorAs(t, err, &op)
	require.Equal(t, "try lock", op.Op)
	require.Equal(t, "a", op.Name)
	require.EqualError(t, err, `signalbox: try lock "a": the lock is held`)
	require.Equal(t, signalbox.Lease{}, lease)
	require.NoError(t, holder.Unlock())
}

func TestTryLockTakesAFreeLock(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := fair.New(locktest.SteadySession(t, server), "a")
	for range 3 {
		lease, err := mu.TryLock(t.Context())
		require.NoError(t, err)
		require.True(t, isHeld(t, server, "a"))
		require.NoError(t, lease.Unlock())
		require.False(t, isHeld(t, server, "a"))
	}
}

// P7: what the process knows it does not ask the server, while it holds the lock or waits for it.
func TestTryLockIsRefusedWithoutACommandWhereTheSessionKnows(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	holder := fair.New(locktest.SteadySession(t, server, signalbox.WithPolling()), "a", signalbox.RenewedLease(time.Hour))
	lease := locktest.Must(t, holder.Lock)
	require.Empty(t, server.SentBy(func() {
		_, err := holder.TryLock(t.Context())
		require.ErrorIs(t, err, signalbox.ErrHeld)
	}))
	proxy := redistest.NewProxy(t, server.Addr())
	mu := fair.New(locktest.SteadySession(t, proxy), "a")
	waiting := queue(t.Context(), t, server, mu, "a", 1)
	proxy.SetMatch(locktest.Runs(scripts.FairEnter))
	proxy.ResetCount()
	_, err := mu.TryLock(t.Context())
	require.ErrorIs(t, err, signalbox.ErrHeld)
	require.Zero(t, proxy.Requests())
	require.NoError(t, lease.Unlock())
	require.NoError(t, locktest.MustHave(t, waiting).Unlock())
}

// P4: an ended context acquires nothing and sends nothing.
func TestAnEndedContextAcquiresNothingAndSendsNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := fair.New(locktest.SteadySession(t, server, signalbox.WithPolling()), "a")
	require.NoError(t, locktest.Must(t, mu.Lock).Unlock())
	stopped := errors.New("the request was dropped")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stopped)
	require.Empty(t, server.SentBy(func() {
		_, err := mu.Lock(ctx)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, stopped)
		require.NotErrorIs(t, err, signalbox.ErrHeld)
		_, err = mu.TryLock(ctx)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, stopped)
		err = mu.Do(ctx, func(context.Context, signalbox.Lease) error {
			t.Error("an ended context got the lock")
			return nil
		})
		require.ErrorIs(t, err, stopped)
		for _, err := range mu.Waiters(ctx) {
			require.ErrorIs(t, err, stopped)
		}
	}))
}
