// SPDX-License-Identifier: Apache-2.0

package semaphore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/semaphore"
)

// P2, P9: a slot that is moved while permits are held and waited for, and a name that has braces.
func TestPermitsAreKeptWhileTheSlotIsMoved(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "a slot that moves between the nodes of a cluster")
	const name, capacity = "a{b}c", 3
	c := redistest.StartCluster(t, redistest.WithFailoverAfter(time.Minute))
	slot := c.Slot(t, locktest.Keys(name).Permits())
	require.Equal(t, slot, c.Slot(t, locktest.Keys(name).PermitsQueue()))
	require.Equal(t, slot, c.Slot(t, locktest.Keys(name).PermitsHeartbeats()))
	here := semaphore.New(locktest.Session(t, c), name, capacity, signalbox.WithRenewedLease(15*time.Second))
	there := semaphore.New(locktest.Session(t, c), name, capacity)
	held := take(t, here, 3)
	got := acquireLater(t, there, 2)
	for i := range 4 {
		owner := c.Owner(t, slot)
		for _, node := range c.Servers()[:3] {
			if node != owner {
				c.MoveSlot(t, slot, node)
				break
			}
		}
		if i == 1 {
			require.NoError(t, held.Unlock())
			lease := gets(t, got)
			require.NoError(t, lease.Unlock())
			held = take(t, here, 3)
		}
	}
	require.NoError(t, held.Err())
	require.NoError(t, held.Unlock())
	n, err := there.Available(t.Context())
	require.NoError(t, err)
	require.Equal(t, capacity, n)
}
