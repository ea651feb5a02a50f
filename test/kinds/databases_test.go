// SPDX-License-Identifier: Apache-2.0

package kinds_test

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
	each(t, exclusive, func(s *fixture) {
		ctx := locktest.Context(s)
		elsewhere := func() anyLock {
			session, err := signalbox.Dial(ctx, s.server.URL()+"/1")
			require.NoError(s, err)
			s.Cleanup(func() { _ = session.Close(ctx) })
			return s.in(session)
		}
		here, there := s.lock(), elsewhere()
		mine, err := here.TryLock(ctx)
		require.NoError(s, err)
		theirs, err := there.TryLock(ctx)
		require.NoError(s, err)
		waiting := s.wait(ctx, s.lock(), 1)

		// There: a waiter is granted the lock, and what it holds then is ended by force.
		next := locktest.LaterWith(ctx, elsewhere().Lock)
		require.NoError(s, locktest.IgnoreUnconfirmed(theirs.Unlock()))
		granted := locktest.MustHave(s, next)
		if mu, has := there.(forceUnlocker); has {
			require.NoError(s, mu.ForceUnlock(ctx))
			redistest.Receive(s, "the loss there", granted.Done())
		} else {
			require.NoError(s, locktest.IgnoreUnconfirmed(granted.Unlock()))
		}

		require.NoError(s, mine.Err())
		require.Empty(s, waiting)
		require.NoError(s, locktest.IgnoreUnconfirmed(mine.Unlock()))
		last := locktest.MustHave(s, waiting)
		require.NoError(s, locktest.IgnoreUnconfirmed(last.Unlock()))
	})
}
