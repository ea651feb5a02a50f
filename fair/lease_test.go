// SPDX-License-Identifier: Apache-2.0

package fair_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/locktest"
	"github.com/signalbox-go/signalbox/internal/redistest"
)

// P2: everything that hangs on a lease ends with its own Unlock, and a second Unlock is ErrNotHeld. It does not matter
// whether the lock was free, or was granted to a waiter.
func TestUnlockEndsWhatHangsOnTheLease(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := fair.New(locktest.SteadySession(t, server), "a")
	before := locktest.Must(t, fair.New(locktest.SteadySession(t, server), "a").Lock)
	waiting := queue(t.Context(), t, server, mu, "a", 1)
	require.NoError(t, before.Unlock())
	for _, get := range []func() signalbox.Lease{
		func() signalbox.Lease { return locktest.MustHave(t, waiting) },
		func() signalbox.Lease { return locktest.Must(t, mu.Lock) },
	} {
		lease := get()
		done := lease.Done()
		bound, entered := lease.Bind(t.Context()), lease.Enter(t.Context())
		require.False(t, locktest.IsClosed(done))
		require.NoError(t, lease.Err())
		require.NoError(t, bound.Err())
		require.NoError(t, lease.Unlock())
		require.True(t, locktest.IsClosed(done))
		require.ErrorIs(t, lease.Err(), signalbox.ErrReleased)
		for _, ctx := range []context.Context{bound, entered, lease.Bind(t.Context())} {
			require.True(t, locktest.IsClosed(ctx.Done()))
			require.ErrorIs(t, context.Cause(ctx), signalbox.ErrReleased)
		}
		require.ErrorIs(t, lease.Unlock(), signalbox.ErrNotHeld)
		require.False(t, isHeld(t, server, "a"))
	}
}

func TestTheZeroLeaseHoldsNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := fair.New(locktest.SteadySession(t, server), "a")
	held := locktest.Must(t, mu.Lock)
	var lease signalbox.Lease
	require.ErrorIs(t, lease.Unlock(), signalbox.ErrNotHeld)
	_, err := mu.TryLock(lease.Enter(t.Context()))
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, held.Unlock())
}

// P8: a release after a stranger's DEL says so, and leaves the next holder alone.
func TestUnlockAfterADeletedKeyIsErrLostAndSparesTheNextHolder(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	lost := locktest.Must(t, fair.New(locktest.SteadySession(t, server), "a").Lock)
	server.MustDo(t, "DEL", locktest.Key("a"))
	next := locktest.Must(t, fair.New(locktest.SteadySession(t, server), "a").Lock)
	require.Greater(t, next.Token(), lost.Token())
	require.ErrorIs(t, lost.Unlock(), signalbox.ErrLost)
	require.True(t, isHeld(t, server, "a"))
	require.NoError(t, next.Unlock())
}

// P4: the request for which a lock was held may be over when the lock is given back.
func TestUnlockWorksAfterTheEndOfTheRequest(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	ctx, cancel := context.WithCancel(t.Context())
	lease, err := fair.New(locktest.SteadySession(t, server), "a").Lock(ctx)
	require.NoError(t, err)
	cancel()
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Unlock())
	require.False(t, isHeld(t, server, "a"))
}
