// SPDX-License-Identifier: Apache-2.0

package rwlock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/rwlock"
)

// P3: the token stays, and with it the lease.
func TestADowngradedLeaseKeepsItsToken(t *testing.T) {
	t.Parallel()
	f := sharedFixture(t)
	mu := f.lock()
	lease := must(t, mu, write)
	token, bound, done := lease.Token(), lease.Bind(t.Context()), lease.Done()
	for range 2 { // again is as good as once
		require.NoError(t, mu.Downgrade(t.Context(), lease))
	}
	require.Equal(t, token, lease.Token())
	require.NoError(t, lease.Err())
	require.NoError(t, bound.Err())
	require.False(t, locktest.IsClosed(done))
	beside := must(t, f.lock(), tryRead)
	require.ErrorIs(t, second(mu.TryLock(t.Context())), signalbox.ErrHeld)
	require.NoError(t, lease.Unlock())
	require.ErrorIs(t, lease.Err(), signalbox.ErrReleased)
	require.Len(t, f.holds(), 1)
	require.NoError(t, beside.Unlock())
}

// P2: of a lease that has ended it says why, at once, and the lease is over.
func TestDowngradeOfALostLeaseIsItsError(t *testing.T) {
	t.Parallel()
	f := sharedFixture(t)
	mu := f.lock()
	lease := must(t, mu, write)
	bound := lease.Bind(t.Context())
	f.server.MustDo(t, "DEL", f.key())
	next := must(t, f.lock(), write)
	for range 2 {
		require.ErrorIs(t, mu.Downgrade(t.Context(), lease), signalbox.ErrLost)
		require.ErrorIs(t, lease.Err(), signalbox.ErrLost)
	}
	redistest.Receive(t, "the end of the bound context", bound.Done())
	require.ErrorIs(t, context.Cause(bound), signalbox.ErrLost)
	require.ErrorIs(t, lease.Unlock(), signalbox.ErrLost)
	require.NoError(t, next.Err())
	require.Len(t, f.holds(), 1)
	require.ErrorIs(t, second(f.lock().TryRLock(t.Context())), signalbox.ErrHeld)
	require.NoError(t, next.Unlock())
}

// P8: a lease of another lock, session or name is not changed; nor is one that writes already, for which nothing is sent.
func TestDowngradeOfAForeignLeaseIsErrNotHeld(t *testing.T) {
	t.Parallel()
	f := ownFixture(t)
	s := f.poller()
	mu, name, elsewhere := rwlock.New(s, f.name, signalbox.WithRenewedLease(time.Hour)), rwlock.New(s, "b"), f.lock()
	lease := must(t, mu, write)
	require.Empty(t, f.server.SentBy(func() {
		require.ErrorIs(t, name.Downgrade(t.Context(), lease), signalbox.ErrNotHeld)
		require.ErrorIs(t, elsewhere.Downgrade(t.Context(), lease), signalbox.ErrNotHeld)
		require.ErrorIs(t, mu.Downgrade(t.Context(), signalbox.Lease{}), signalbox.ErrNotHeld)
		require.ErrorIs(t, mu.Downgrade(locktest.Ended(), lease), context.Canceled)
	}))
	again, err := mu.Lock(lease.Enter(t.Context()))
	require.NoError(t, err, "it writes still")
	require.NoError(t, again.Unlock())
	require.ErrorIs(t, second(elsewhere.TryRLock(t.Context())), signalbox.ErrHeld)
	require.NoError(t, lease.Unlock())
	require.ErrorIs(t, mu.Downgrade(t.Context(), lease), signalbox.ErrReleased)
}

// All entries of a hold read once it is downgraded, by whichever of its leases.
func TestDowngradeIsThatOfAllEntries(t *testing.T) {
	t.Parallel()
	f := sharedFixture(t)
	mu := f.lock()
	lease := must(t, mu, write)
	ctx := lease.Enter(t.Context())
	inner, err := mu.Lock(ctx)
	require.NoError(t, err)
	require.NoError(t, mu.Downgrade(t.Context(), inner))
	for _, ctx := range []context.Context{ctx, inner.Enter(t.Context())} {
		require.ErrorIs(t, second(mu.Lock(ctx)), signalbox.ErrUpgrade)
		require.ErrorIs(t, second(mu.TryLock(ctx)), signalbox.ErrUpgrade)
		again, err := mu.RLock(ctx)
		require.NoError(t, err)
		require.Equal(t, lease.Token(), again.Token())
		require.NoError(t, again.Unlock())
	}
	beside := must(t, f.lock(), read)
	require.NoError(t, inner.Unlock())
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Unlock())
	require.NoError(t, beside.Unlock())
}

// Downgrade at the same time as Unlock, a loss or another Downgrade returns nil or why the lease ended, and
// leaves nothing.
func TestDowngradeRacesWithTheEndOfItsLease(t *testing.T) {
	t.Parallel()
	f := sharedFixture(t)
	mus := f.locks(2)
	ends := map[string]func(lease signalbox.Lease) error{
		"Unlock":      func(lease signalbox.Lease) error { return lease.Unlock() },
		"ForceUnlock": func(signalbox.Lease) error { return mus[1].ForceUnlock(context.Background()) },
		"Downgrade":   func(lease signalbox.Lease) error { return mus[0].Downgrade(context.Background(), lease) },
	}
	for name, end := range ends {
		for range 5 {
			lease := must(t, mus[0], write)
			var both sync.WaitGroup
			var downgraded, ended error
			both.Go(func() { downgraded = mus[0].Downgrade(t.Context(), lease) })
			both.Go(func() { ended = end(lease) })
			both.Wait()
			if downgraded != nil && !errors.Is(downgraded, signalbox.ErrReleased) && !errors.Is(downgraded, signalbox.ErrLost) {
				t.Error(name, downgraded)
			}
			require.NoError(t, ended, name)
			_ = lease.Unlock()
			f.awaitFree()
		}
	}
}
