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

// P1, P4, P6: behind sentinels permits are granted when replicas have them, if that is asked for, and none stays
// out where too few do; and after a failover those who waited are served.
func TestPermitsBehindSentinels(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "a failover by sentinels")
	const name, capacity = "sentinels", 2
	behind := redistest.StartSentinel(t, redistest.WithFailoverAfter(time.Minute)) // it is asked for
	s, other := locktest.Session(t, behind), locktest.Session(t, behind)
	const lease = 10 * time.Minute // from the start: the hold outlasts the failover, however long that takes
	held, err := semaphore.New(s, name, capacity, signalbox.WithReplicas(1, 10*time.Second),
		signalbox.WithRenewedLease(lease), signalbox.WithFirstLease(lease)).Acquire(long(t), 2)
	require.NoError(t, err)
	got := acquireLater(t, semaphore.New(other, name, capacity), 2)
	first := behind.Primary(t)
	v := newView(t, first, name)
	redistest.Await(t, "it is queued", func() bool { return v.waiting(t) == 1 })
	first.Kill()
	behind.Sentinels()[0].MustDo(t, "SENTINEL", "FAILOVER", redistest.MasterSet)
	behind.AwaitFailover(t, first)
	require.Empty(t, got, "the permits are held, and were granted again")
	// Clients learn of the new primary one connection after the other: the grant may arrive while the connection for commands
	// still points to the one that was killed. Then a release gets no reply, and is repeated in the background.
	require.NoError(t, locktest.IgnoreUnconfirmed(held.Unlock()))
	require.NoError(t, locktest.IgnoreUnconfirmed(gets(t, got).Unlock()))
	redistest.Await(t, "the new primary confirms both releases", func() bool {
		return locktest.Undoing(s) == 0 && locktest.Undoing(other) == 0
	})

	greedy := semaphore.New(s, name, capacity, signalbox.WithReplicas(100, 200*time.Millisecond))
	_, err = greedy.TryAcquire(locktest.Context(t), 1)
	require.ErrorIs(t, err, signalbox.ErrNotReplicated)
	all, err := semaphore.New(other, name, capacity).Acquire(locktest.Context(t), capacity)
	require.NoError(t, err, "it was released")
	require.NoError(t, all.Unlock())
}
