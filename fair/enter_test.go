// SPDX-License-Identifier: Apache-2.0

package fair_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/locktest"
	"github.com/signalbox-go/signalbox/internal/redistest"
)

// P7: entering again makes no round trip and allocates nothing.
func TestEnteringAgainSendsNoCommandAndAllocatesNothing(t *testing.T) {
	server := redistest.Start(t)
	mu := fair.New(locktest.SteadySession(t, server, signalbox.WithPolling()), "a", signalbox.RenewedLease(time.Hour))
	lease := locktest.Must(t, mu.Lock)
	ctx := lease.Enter(t.Context())
	var allocated float64
	require.Empty(t, server.SentBy(func() {
		allocated = testing.AllocsPerRun(100, func() {
			again, err := mu.Lock(ctx)
			if err != nil || again.Token() != lease.Token() || again.Err() != nil {
				t.Error("not entered again", err)
			}
			if err := again.Unlock(); err != nil {
				t.Error(err)
			}
		})
	}))
	require.Zero(t, allocated)
	require.NoError(t, lease.Unlock())
}

// Order: who has the lock enters again, whoever waits.
func TestEnteringAgainDoesNotQueue(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := fair.New(locktest.SteadySession(t, server), "a")
	lease := locktest.Must(t, mu.Lock)
	waiting := queue(t.Context(), t, server, fair.New(locktest.SteadySession(t, server), "a"), "a", 1)
	for _, enter := range []func(context.Context) (signalbox.Lease, error){mu.Lock, mu.TryLock} {
		again, err := enter(lease.Enter(t.Context()))
		require.NoError(t, err)
		require.Equal(t, lease.Token(), again.Token())
		require.NoError(t, again.Unlock())
	}
	require.False(t, locktest.IsClosed(waiting))
	require.NoError(t, lease.Unlock())
	require.NoError(t, locktest.MustHave(t, waiting).Unlock())
}

// P8: the hold goes to the next with the last of its leases.
func TestTheLockGoesOnWithTheLastOfItsLeases(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := fair.New(locktest.SteadySession(t, server), "a")
	outer := locktest.Must(t, mu.Lock)
	inner, err := mu.Lock(outer.Enter(t.Context()))
	require.NoError(t, err)
	waiting := queue(t.Context(), t, server, fair.New(locktest.SteadySession(t, server), "a"), "a", 1)
	view := locktest.NewView(t, server)
	hold := view.MustHold(t, "a").ID
	require.NoError(t, outer.Unlock())
	require.NoError(t, inner.Err())
	require.Equal(t, hold, view.MustHold(t, "a").ID)
	require.False(t, locktest.IsClosed(waiting))
	require.NoError(t, inner.Unlock())
	require.NoError(t, locktest.MustHave(t, waiting).Unlock())
}

// P1: a carried lease that has ended is an error, never a new acquire.
func TestACarriedLeaseThatHasEndedNeverAcquires(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := fair.New(locktest.SteadySession(t, server), "a")
	released := locktest.Must(t, mu.Lock)
	ctx := released.Enter(t.Context())
	require.NoError(t, released.Unlock())
	taken := fair.New(locktest.SteadySession(t, server), "b")
	lost := locktest.Must(t, taken.Lock)
	require.NoError(t, taken.ForceUnlock(t.Context()))
	redistest.Receive(t, "the end of the lease", lost.Done())
	for _, c := range []struct {
		mu   *fair.Lock
		ctx  context.Context
		want error
	}{
		{mu, ctx, signalbox.ErrReleased},
		{mu, context.WithoutCancel(ctx), signalbox.ErrReleased},
		{taken, lost.Enter(t.Context()), signalbox.ErrLost},
		{taken, context.WithoutCancel(lost.Enter(t.Context())), signalbox.ErrLost},
	} {
		_, err := c.mu.Lock(c.ctx)
		require.ErrorIs(t, err, c.want)
		_, err = c.mu.TryLock(c.ctx)
		require.ErrorIs(t, err, c.want)
	}
}

// P1: leases of another session mean nothing here, nor do bound contexts.
func TestOnlyACarriedLeaseOfTheSessionEnters(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := fair.New(locktest.SteadySession(t, server), "a")
	lease := locktest.Must(t, mu.Lock)
	_, err := fair.New(locktest.SteadySession(t, server), "a").TryLock(lease.Enter(t.Context()))
	require.ErrorIs(t, err, signalbox.ErrHeld)
	_, err = mu.TryLock(lease.Bind(t.Context()))
	require.ErrorIs(t, err, signalbox.ErrHeld)
	other, err := fair.New(locktest.SteadySession(t, server), "b").TryLock(lease.Enter(t.Context()))
	require.NoError(t, err)
	require.NotEqual(t, lease.Token(), other.Token())
	require.NoError(t, other.Unlock())
	require.NoError(t, lease.Unlock())
}

// P3: all entries of a hold have its token, and its terms.
func TestEnteringAgainKeepsTokenAndTerms(t *testing.T) {
	t.Parallel()
	s := locktest.SteadySession(t, redistest.Start(t))
	lease := locktest.Must(t, fair.New(s, "a", signalbox.RenewedLease(time.Hour)).Lock)
	again, err := fair.New(s, "a", signalbox.FixedLease(time.Second)).Lock(lease.Enter(t.Context()))
	require.NoError(t, err)
	require.Equal(t, lease.Token(), again.Token())
	require.WithinDuration(t, lease.Deadline(), again.Deadline(), time.Second)
	require.NoError(t, again.Unlock())
	require.NoError(t, lease.Unlock())
}
