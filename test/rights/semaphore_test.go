// SPDX-License-Identifier: Apache-2.0

package rights_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/semaphore"
)

// permits uses a semaphore in every way there is.
func (s *servers) permits(t *testing.T, user string) {
	t.Helper()
	const name = "permits"
	one, other := locktest.Session(t, s.as(user), whole()), locktest.Session(t, s.as(user))
	sem := semaphore.New(one, name, 3, signalbox.WithRenewedLease(6*time.Second))
	elsewhere := semaphore.New(other, name, 3)
	held, err := sem.TryAcquire(t.Context(), 2)
	require.NoError(t, err)
	first := held.Deadline()
	waits := make(chan error, 1)
	go func() {
		lease, err := elsewhere.Acquire(locktest.Context(t), 3)
		if err == nil {
			err = lease.Unlock()
		}
		waits <- err
	}()
	redistest.Await(t, "a renewal, with a waiter in the queue", func() bool {
		_, err := sem.TryAcquire(t.Context(), 2)
		require.ErrorIs(t, err, signalbox.ErrHeld)
		return held.Deadline().After(first.Add(time.Second))
	})
	n, err := sem.Available(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, n)
	for _, err := range elsewhere.Holders(t.Context()) {
		require.NoError(t, err)
	}
	require.NoError(t, held.Unlock())
	require.NoError(t, <-waits)
	require.NoError(t, elsewhere.SetCapacity(t.Context(), 4))
	w := sem.Weighted(t.Context())
	w.OnLost(func(err error) { t.Error(err) })
	require.NoError(t, w.Acquire(t.Context(), 4))
	w.Release(1)
	w.Release(3)
}

// P10: a semaphore works under the rights of the page, and nothing that it tries is denied.
func TestTheRightsOfThePageAreEnoughForPermits(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, later)
	for name, c := range map[string]struct {
		start func(t *testing.T) redistest.Topology
		user  int
	}{
		"OneServer": {func(t *testing.T) redistest.Topology { t.Helper(); return redistest.Start(t) }, oneServer},
		"Cluster": {func(t *testing.T) redistest.Topology {
			t.Helper()
			return redistest.StartCluster(t, redistest.WithFailoverAfter(failoverAfter))
		}, cluster},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServers(t, c.start(t))
			s.allow(t, "permits", users(t)[c.user])
			s.permits(t, "permits")
			require.Empty(t, s.denials(t, "permits"))
		})
	}
}
