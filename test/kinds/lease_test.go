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
	each(t, everyKind, func(s *fixture) {
		mu := s.lock()
		before := s.must(s.against())
		waiting := s.wait(s.Context(), mu, 1)
		require.NoError(s, before.Unlock())
		for _, get := range []func() signalbox.Lease{
			func() signalbox.Lease { return locktest.MustHave(s, waiting) },
			func() signalbox.Lease { return s.must(mu) },
		} {
			lease := get()
			done := lease.Done()
			bound, entered := lease.Bind(s.Context()), lease.Enter(s.Context())
			child, cancel := context.WithCancel(bound)
			defer cancel()
			require.False(s, locktest.IsClosed(done))
			require.NoError(s, lease.Err())
			require.NoError(s, bound.Err())
			require.NoError(s, entered.Err())
			require.NoError(s, lease.Unlock())
			require.True(s, locktest.IsClosed(done))
			require.True(s, locktest.IsClosed(lease.Done()))
			require.ErrorIs(s, lease.Err(), signalbox.ErrReleased)
			for _, ctx := range []context.Context{bound, entered, child, lease.Bind(s.Context()), lease.Enter(s.Context())} {
				require.True(s, locktest.IsClosed(ctx.Done()))
				require.ErrorIs(s, ctx.Err(), context.Canceled)
				require.ErrorIs(s, context.Cause(ctx), signalbox.ErrReleased)
			}
			require.ErrorIs(s, lease.Unlock(), signalbox.ErrNotHeld)
			require.False(s, s.isHeld())
		}
	})
}

// P8: the zero Lease holds nothing and ends nothing.
func TestZeroLeaseHoldsNothing(t *testing.T) {
	t.Parallel()
	each(t, everyKind, func(s *fixture) {
		mu := s.lock()
		held := s.must(mu)
		var lease signalbox.Lease
		require.Zero(s, lease.Token())
		require.ErrorIs(s, lease.Err(), signalbox.ErrNotHeld)
		require.True(s, locktest.IsClosed(lease.Done()))
		require.True(s, lease.Deadline().IsZero())
		require.ErrorIs(s, lease.Unlock(), signalbox.ErrNotHeld)
		for _, ctx := range []context.Context{lease.Bind(s.Context()), lease.Enter(s.Context())} {
			require.ErrorIs(s, ctx.Err(), context.Canceled)
			require.ErrorIs(s, context.Cause(ctx), signalbox.ErrNotHeld)
			require.ErrorIs(s, second(mu.TryLock(ctx)), context.Canceled)
		}
		require.NoError(s, held.Unlock())
	})
}

// P3, P8: a release after another program has deleted the key is ErrLost, and leaves the next holder alone.
func TestUnlockAfterADeletedKeyIsErrLostAndSparesTheNextHolder(t *testing.T) {
	t.Parallel()
	each(t, everyKind, func(s *fixture) {
		lost := s.must(s.lock())
		s.server.MustDo(s, "DEL", s.key())
		next := s.must(s.against())
		require.Greater(s, next.Token(), lost.Token())
		require.ErrorIs(s, lost.Unlock(), signalbox.ErrLost)
		require.True(s, s.isHeld())
		require.ErrorIs(s, second(s.lock().TryLock(s.Context())), signalbox.ErrHeld)
		require.NoError(s, next.Err())
		require.NoError(s, next.Unlock())
	})
}

// P4: the request for which a lock was held may be over when the lock is released.
func TestUnlockWorksAfterTheEndOfTheRequest(t *testing.T) {
	t.Parallel()
	each(t, everyKind, func(s *fixture) {
		ctx, cancel := context.WithCancel(s.Context())
		lease, err := s.lock().Lock(ctx)
		require.NoError(s, err)
		cancel()
		require.NoError(s, lease.Err())
		require.NoError(s, lease.Unlock())
		require.False(s, s.isHeld())
	})
}

// P2, P3: ForceUnlock notifies the holder by message, long before a renewal, and the lock goes to the waiter, with a greater
// token.
func TestForceUnlockNotifiesTheHolderAndServesTheWaiter(t *testing.T) {
	t.Parallel()
	each(t, forcible, func(s *fixture) {
		forced, _ := s.lock().(forceUnlocker)
		require.ErrorIs(s, forced.ForceUnlock(s.Context()), signalbox.ErrNotHeld)
		holders := []anyLock{s.lock(signalbox.WithRenewedLease(longest))}
		if !exclusive(s.lockKind) {
			holders = append(holders, s.lock(signalbox.WithRenewedLease(longest)), s.lock(signalbox.WithRenewedLease(longest)))
		}
		leases, bound := make([]signalbox.Lease, len(holders)), make([]context.Context, len(holders))
		for n, mu := range holders {
			leases[n] = s.must(mu)
			bound[n] = leases[n].Bind(s.Context())
		}
		waiting := s.wait(s.Context(), s.against(), 1)
		if mu, has := holders[0].(reportsHolder); has && !native(s.lockKind) {
			h, err := mu.Holder(s.Context())
			require.NoError(s, err)
			require.Regexp(s, `^([0-9a-f-]{36}:[0-9]{19}|[\w-]{41})$`, h.Label)
			require.Len(s, h.Session, 22)
		}
		require.NoError(s, forced.ForceUnlock(s.Context()))
		next := locktest.MustHave(s, waiting)
		for n, lease := range leases {
			redistest.Receive(s, "the loss", bound[n].Done())
			redistest.Receive(s, "the end of the lease", lease.Done())
			require.ErrorIs(s, lease.Err(), signalbox.ErrLost)
			require.ErrorIs(s, context.Cause(bound[n]), signalbox.ErrLost)
			require.ErrorIs(s, lease.Unlock(), signalbox.ErrLost)
			require.Greater(s, next.Token(), lease.Token())
		}
		require.NoError(s, next.Err())
		require.NoError(s, next.Unlock())
		require.ErrorIs(s, forced.ForceUnlock(s.Context()), signalbox.ErrNotHeld)
	})
}
