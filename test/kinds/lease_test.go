// SPDX-License-Identifier: Apache-2.0

package kinds_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// P2: everything that hangs on a lease ends with its own Unlock, and a second Unlock is ErrNotHeld. It does not matter
// whether the lock was free, or was granted to a waiter.
func TestUnlockEndsWhatHangsOnTheLease(t *testing.T) {
	t.Parallel()
	each(t, everyKind, func(f *fixture) {
		mu := f.lock()
		before := f.must(f.against())
		waiting := f.wait(f.Context(), mu, 1)
		require.NoError(f, before.Unlock())
		for _, get := range []func() signalbox.Lease{
			func() signalbox.Lease { return locktest.MustHave(f, waiting) },
			func() signalbox.Lease { return f.must(mu) },
		} {
			lease := get()
			done := lease.Done()
			bound, entered := lease.Bind(f.Context()), lease.Enter(f.Context())
			child, cancel := context.WithCancel(bound)
			defer cancel()
			require.False(f, locktest.IsClosed(done))
			require.NoError(f, lease.Err())
			require.NoError(f, bound.Err())
			require.NoError(f, entered.Err())
			require.NoError(f, lease.Unlock())
			require.True(f, locktest.IsClosed(done))
			require.True(f, locktest.IsClosed(lease.Done()))
			require.ErrorIs(f, lease.Err(), signalbox.ErrReleased)
			for _, ctx := range []context.Context{bound, entered, child, lease.Bind(f.Context()), lease.Enter(f.Context())} {
				require.True(f, locktest.IsClosed(ctx.Done()))
				require.ErrorIs(f, ctx.Err(), context.Canceled)
				require.ErrorIs(f, context.Cause(ctx), signalbox.ErrReleased)
			}
			require.ErrorIs(f, lease.Unlock(), signalbox.ErrNotHeld)
			require.False(f, f.isHeld())
		}
	})
}

// P8: the zero Lease holds nothing and ends nothing.
func TestZeroLeaseHoldsNothing(t *testing.T) {
	t.Parallel()
	each(t, everyKind, func(f *fixture) {
		mu := f.lock()
		held := f.must(mu)
		var lease signalbox.Lease
		require.Zero(f, lease.Token())
		require.ErrorIs(f, lease.Err(), signalbox.ErrNotHeld)
		require.True(f, locktest.IsClosed(lease.Done()))
		require.True(f, lease.Deadline().IsZero())
		require.ErrorIs(f, lease.Unlock(), signalbox.ErrNotHeld)
		for _, ctx := range []context.Context{lease.Bind(f.Context()), lease.Enter(f.Context())} {
			require.ErrorIs(f, ctx.Err(), context.Canceled)
			require.ErrorIs(f, context.Cause(ctx), signalbox.ErrNotHeld)
			require.ErrorIs(f, second(mu.TryLock(ctx)), context.Canceled)
		}
		require.NoError(f, held.Unlock())
	})
}

// P3, P8: a release after another program has deleted the key is ErrLost, and leaves the next holder alone.
func TestUnlockAfterADeletedKeyIsErrLostAndSparesTheNextHolder(t *testing.T) {
	t.Parallel()
	each(t, everyKind, func(f *fixture) {
		lost := f.must(f.lock())
		f.server.MustDo(f, "DEL", f.key())
		next := f.must(f.against())
		require.Greater(f, next.Token(), lost.Token())
		require.ErrorIs(f, lost.Unlock(), signalbox.ErrLost)
		require.True(f, f.isHeld())
		require.ErrorIs(f, second(f.lock().TryLock(f.Context())), signalbox.ErrHeld)
		require.NoError(f, next.Err())
		require.NoError(f, next.Unlock())
	})
}

// P4: the request for which a lock was held may be over when the lock is released.
func TestUnlockWorksAfterTheEndOfTheRequest(t *testing.T) {
	t.Parallel()
	each(t, everyKind, func(f *fixture) {
		ctx, cancel := context.WithCancel(f.Context())
		lease, err := f.lock().Lock(ctx)
		require.NoError(f, err)
		cancel()
		require.NoError(f, lease.Err())
		require.NoError(f, lease.Unlock())
		require.False(f, f.isHeld())
	})
}

// P2, P3: ForceUnlock notifies the holder by message, long before a renewal, and the lock goes to the waiter, with a greater
// token.
func TestForceUnlockNotifiesTheHolderAndServesTheWaiter(t *testing.T) {
	t.Parallel()
	each(t, forcible, func(f *fixture) {
		forced, _ := f.lock().(forceUnlocker)
		require.ErrorIs(f, forced.ForceUnlock(f.Context()), signalbox.ErrNotHeld)
		holders := []anyLock{f.lock(signalbox.WithRenewedLease(longest))}
		if !exclusive(f.lockKind) {
			holders = append(holders, f.lock(signalbox.WithRenewedLease(longest)), f.lock(signalbox.WithRenewedLease(longest)))
		}
		leases, bound := make([]signalbox.Lease, len(holders)), make([]context.Context, len(holders))
		for n, mu := range holders {
			leases[n] = f.must(mu)
			bound[n] = leases[n].Bind(f.Context())
		}
		waiting := f.wait(f.Context(), f.against(), 1)
		if mu, has := holders[0].(reportsHolder); has && !native(f.lockKind) {
			h, err := mu.Holder(f.Context())
			require.NoError(f, err)
			require.Regexp(f, `^([0-9a-f-]{36}:[0-9]{19}|[\w-]{41})$`, h.Label)
			require.Len(f, h.Session, 22)
		}
		require.NoError(f, forced.ForceUnlock(f.Context()))
		next := locktest.MustHave(f, waiting)
		for n, lease := range leases {
			redistest.Receive(f, "the loss", bound[n].Done())
			redistest.Receive(f, "the end of the lease", lease.Done())
			require.ErrorIs(f, lease.Err(), signalbox.ErrLost)
			require.ErrorIs(f, context.Cause(bound[n]), signalbox.ErrLost)
			require.ErrorIs(f, lease.Unlock(), signalbox.ErrLost)
			require.Greater(f, next.Token(), lease.Token())
		}
		require.NoError(f, next.Err())
		require.NoError(f, next.Unlock())
		require.ErrorIs(f, forced.ForceUnlock(f.Context()), signalbox.ErrNotHeld)
	})
}
