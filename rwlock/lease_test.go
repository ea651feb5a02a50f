// SPDX-License-Identifier: Apache-2.0

package rwlock_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/locktest"
)

// P2: everything that hangs on a lease ends with its own Unlock, and again is ErrNotHeld.
func TestUnlockEndsWhatHangsOnTheLease(t *testing.T) {
	t.Parallel()
	w := here(t)
	mu := w.lock()
	for name, side := range sides() {
		lease := must(t, mu, side)
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
		require.ErrorIs(t, lease.Unlock(), signalbox.ErrNotHeld, name)
		require.False(t, w.isHeld())
	}
}

// P8: what hangs on one reader's lease ends with that, and with no other of its hold.
func TestUnlockOfAReaderEndsNothingOfThoseBesideIt(t *testing.T) {
	t.Parallel()
	w := here(t)
	mu := w.lock()
	lease, beside := must(t, mu, read), must(t, mu, read)
	bound, besides := lease.Bind(t.Context()), beside.Bind(t.Context())
	require.NoError(t, lease.Unlock())
	require.ErrorIs(t, lease.Unlock(), signalbox.ErrNotHeld)
	require.ErrorIs(t, context.Cause(bound), signalbox.ErrReleased)
	require.NoError(t, besides.Err())
	require.NoError(t, beside.Err())
	require.NoError(t, beside.Unlock())
	require.ErrorIs(t, context.Cause(besides), signalbox.ErrReleased)
}

// P8: a release after a stranger's DEL says so, and leaves the next holder alone.
func TestUnlockAfterADeletedKeyIsErrLostAndSparesTheNextHolder(t *testing.T) {
	t.Parallel()
	w := here(t)
	for _, side := range []side{write, read} {
		lost := must(t, w.lock(), side)
		w.server.MustDo(t, "DEL", w.key())
		next := must(t, w.lock(), write)
		require.Greater(t, next.Token(), lost.Token())
		require.ErrorIs(t, lost.Unlock(), signalbox.ErrLost)
		require.True(t, w.isHeld())
		require.ErrorIs(t, second(w.lock().TryRLock(t.Context())), signalbox.ErrHeld)
		require.NoError(t, next.Unlock())
	}
}
