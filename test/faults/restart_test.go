// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// P2, P3, P6: after a restart that lost everything each holder learns it from its next
// renewal, and each waiter gets its lock, with a greater token.
func TestEmptyServerReportsLossesAndServesWaiters(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "a holder learns of the restart by its next renewal, and its lease must outlast the restart")
	f := newFixture(t)
	const life = 2 * redistest.Patience // long enough for a server that takes its time to start
	queues := f.queues(t, f.other, signalbox.WithRenewedLease(life))
	begun := time.Now()
	f.server.Restart()
	served(t, queues)
	for _, q := range queues {
		// By a renewal, which comes in the first third: their leases would have lasted longer.
		redistest.ReceiveFor(t, life*2/3-time.Since(begun), "the loss, at each holder", q.held.Done())
		require.ErrorIs(t, q.held.Err(), signalbox.ErrLost)
		require.ErrorIs(t, q.held.Unlock(), signalbox.ErrLost)
	}
	locktest.NewView(t, f.server).NoImmortals(t) // the fixture's own lost its connection
}

// P6, P10: a server that is down for a while is waited for.
func TestWaitersOutliveAnOutage(t *testing.T) {
	t.Parallel()
	each(t, outlive)
}

func outlive(t *testing.T, f *fixture) {
	t.Helper()
	f.server.Kill()
	got := make(chan error, 1)
	go func() {
		lease, err := f.kind.New(f.holder, "outage").Lock(t.Context())
		if err == nil {
			err = lease.Unlock()
		}
		got <- err
	}()
	_, err := f.kind.New(f.other, "outage").TryLock(locktest.Context(t))
	require.Error(t, err)
	require.NotErrorIs(t, err, signalbox.ErrHeld)
	f.server.Restart()
	require.NoError(t, redistest.Receive(t, "the lock", got))
}
