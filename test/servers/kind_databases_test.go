// SPDX-License-Identifier: Apache-2.0

package servers_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// P9: the databases of a server share channels, and locks of one name in two of them are two locks: no message from the other one
// grants a lock, ends a hold or a wait.
func TestLocksOfOneNameInTwoDatabasesAreTwo(t *testing.T) {
	t.Parallel()
	each(t, exclusive, func(f *kindFixture) {
		ctx := locktest.Context(f)
		elsewhere := func() anyLock {
			session, err := signalbox.Dial(ctx, f.server.URL()+"/1")
			require.NoError(f, err)
			f.Cleanup(func() { _ = session.Close(ctx) })
			return f.in(session)
		}
		here, there := f.lock(), elsewhere()
		mine, err := here.TryLock(ctx)
		require.NoError(f, err)
		theirs, err := there.TryLock(ctx)
		require.NoError(f, err)
		waiting := f.wait(ctx, f.lock(), 1)

		// There: a waiter is granted the lock, and what it holds then is ended by force.
		next := locktest.LaterWith(ctx, elsewhere().Lock)
		require.NoError(f, locktest.IgnoreUnconfirmed(theirs.Unlock()))
		granted := locktest.MustHave(f, next)
		if mu, has := there.(forceUnlocker); has {
			require.NoError(f, mu.ForceUnlock(ctx))
			redistest.Receive(f, "the loss there", granted.Done())
		} else {
			require.NoError(f, locktest.IgnoreUnconfirmed(granted.Unlock()))
		}

		require.NoError(f, mine.Err())
		require.Empty(f, waiting)
		require.NoError(f, locktest.IgnoreUnconfirmed(mine.Unlock()))
		last := locktest.MustHave(f, waiting)
		require.NoError(f, locktest.IgnoreUnconfirmed(last.Unlock()))
	})
}
