// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/redlock"
)

// P2: servers that restart without data, one after the other, end no lease, and no other process gets the lock meanwhile.
func TestALeaseOutlivesARollingRestart(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "servers restart while a lease is renewed")
	w := newWorld(t, 3, 3)
	mu, other := w.lock(signalbox.WithRenewedLease(12*time.Second), redlock.Fenced()), w.lock(signalbox.WithRenewedLease(12*time.Second))
	lease := w.mustLockAll(mu)
	renewed := func() { // awaits a renewal that a majority confirmed
		before := lease.Deadline()
		redistest.Await(t, "a renewal", func() bool { return lease.Deadline().After(before) })
	}
	renewed()
	for round := range 4 {
		w.servers[round%3].Restart()
		redistest.Await(t, "the hold on each server", func() bool { return w.holds() == 3 })
		require.NoError(t, lease.Err())
		_, err := other.TryLock(t.Context())
		require.Error(t, err)
		renewed() // it may have been under way
		renewed() // the healed server counts
	}
	holder, err := mu.Holder(t.Context())
	require.NoError(t, err)
	require.Equal(t, lease.Token(), holder.Token)
	require.NoError(t, lease.Unlock())
	w.awaitFree()
}
