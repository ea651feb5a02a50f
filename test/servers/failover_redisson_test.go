// SPDX-License-Identifier: Apache-2.0

package servers_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/redisson"
)

// P10: Redisson's keys for each reader are not among those that a script names, so while a slot moves a
// script may find out halfway that a key is away. Waiters still wait, releases are repeated, and nothing is
// left when the slot has moved.
func TestRedissonReadersContinueWhileTheSlotIsMoved(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "a cluster with a slot that moves, until retries find its keys")
	c := redistest.StartCluster(t, redistest.WithFailoverAfter(5*time.Minute))
	session := func() *signalbox.Session {
		return locktest.Session(t, c, signalbox.WithDefaults(signalbox.WithLayout(redisson.Layout()), signalbox.WithRenewedLease(time.Hour)))
	}
	slot := c.Slot(t, "a")
	from := c.Owner(t, slot)
	to := c.Owner(t, (slot+redistest.Slots/2)%redistest.Slots)
	lock := func() locktest.Lock { return locktest.Reader().New(session(), "a") }
	first, err := lock().Lock(locktest.Context(t))
	require.NoError(t, err)
	away := from.Keys("{a}:*")
	require.Len(t, away, 1)
	second, err := lock().Lock(locktest.Context(t))
	require.NoError(t, err)

	move := c.BeginMove(t, slot, to)
	_, err = lock().TryLock(locktest.Context(t))
	require.ErrorIs(t, err, signalbox.ErrRefused)
	waiting := locktest.LaterWith(locktest.Context(t), lock().Lock)
	move.Keys(t, away...)
	require.ErrorIs(t, first.Unlock(), signalbox.ErrUnconfirmed)
	require.Equal(t, int64(3), from.MustDo(t, "HLEN", "a"), "nothing is half done")
	require.Empty(t, waiting)

	move.Finish(t)
	third := locktest.MustHave(t, waiting)
	redistest.Await(t, "the first has gone, the others read", func() bool { return to.MustDo(t, "HLEN", "a") == int64(3) })
	require.NoError(t, second.Err())
	require.NoError(t, second.Unlock())
	require.NoError(t, third.Unlock())
	redistest.Await(t, "no key is left", func() bool { return to.MustDo(t, "CLUSTER", "COUNTKEYSINSLOT", slot) == int64(0) })
}
