// SPDX-License-Identifier: Apache-2.0

package semaphore_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/semaphore"
)

// It is not reentrant: under a context that carries a lease it acquires further permits.
func TestAcquireUnderALeaseTakesFurtherPermits(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	sem := semaphore.New(newSession(t, server), "a", 3)
	first := mustAcquire(t, sem, 1)
	ctx := first.Enter(t.Context())
	second, err := sem.Acquire(ctx, 1)
	require.NoError(t, err)
	require.Greater(t, second.Token(), first.Token())
	require.Equal(t, 2, heldPermits(t, server))
	third, err := sem.TryAcquire(ctx, 1)
	require.NoError(t, err)
	require.Equal(t, 3, heldPermits(t, server))
	require.NoError(t, first.Unlock())
	require.ErrorIs(t, context.Cause(ctx), signalbox.ErrReleased)
	require.NoError(t, second.Err())
	require.NoError(t, second.Unlock())
	require.NoError(t, third.Unlock())
	require.Zero(t, heldPermits(t, server))
}

// P4: Do releases the permits whatever its function does.
func TestDoReleasesPermitsWhateverItsFunctionDoes(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	sem := semaphore.New(newSession(t, server), "a", 3)
	failed := errors.New("no paper")
	require.ErrorIs(t, sem.Do(t.Context(), 2, func(ctx context.Context, lease signalbox.Lease) error {
		require.NoError(t, ctx.Err())
		require.NoError(t, lease.Err())
		require.Equal(t, 2, heldPermits(t, server))
		return failed
	}), failed)
	require.Zero(t, heldPermits(t, server))
	require.PanicsWithValue(t, "no paper", func() {
		_ = sem.Do(t.Context(), 3, func(context.Context, signalbox.Lease) error { panic("no paper") })
	})
	require.Zero(t, heldPermits(t, server))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = sem.Do(t.Context(), 1, func(context.Context, signalbox.Lease) error {
			runtime.Goexit()
			return nil
		})
	}()
	redistest.Receive(t, "the end of the goroutine", ended)
	require.Zero(t, heldPermits(t, server))
	err := sem.Do(t.Context(), 4, func(context.Context, signalbox.Lease) error { return nil })
	require.ErrorIs(t, err, signalbox.ErrCapacity)
}

// Holders are listed with their permits, those of all processes, page by page.
func TestHoldersAreListedWithTheirPermits(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	one := newSession(t, server, signalbox.WithLabel("one"))
	other := newSession(t, server, signalbox.WithLabel("the other"))
	sem := semaphore.New(one, "a", 1000)
	for range sem.Holders(t.Context()) {
		t.Error("no permits are held")
	}
	var leases []signalbox.Lease
	want := make(map[string]int)
	for n := range 230 {
		s, label := one, "one"
		if n%3 == 0 {
			s, label = other, "the other"
		}
		hour := []signalbox.LockOption{signalbox.WithRenewedLease(time.Hour), signalbox.WithFirstLease(time.Hour)}
		leases = append(leases, mustAcquire(t, semaphore.New(s, "a", 1000, hour...), 1+n%4))
		want[label] += 1 + n%4
	}
	got, onLost := make(map[string]int), 0
	sent := server.SentBy(func() {
		for h, err := range sem.Holders(t.Context()) {
			require.NoError(t, err)
			require.WithinDuration(t, locktest.ServerTime(t, server).Add(time.Hour), h.Until, redistest.Patience)
			require.Len(t, h.Session, 22)
			got[h.Label] += h.Permits
			onLost++
		}
	})
	require.Equal(t, 230, onLost)
	require.Equal(t, want, got)
	require.Equal(t, int64(3), sent["zrange"], "a page each")
	for _, lease := range leases {
		require.NoError(t, lease.Unlock())
	}
	for _, err := range sem.Holders(locktest.Ended()) {
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorContains(t, err, `holders "a"`)
	}
}
