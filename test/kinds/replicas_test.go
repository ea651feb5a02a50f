// SPDX-License-Identifier: Apache-2.0

package kinds_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// joins is why tests with replicas are slow.
const joins = "a replica connects to its primary a second after REPLICAOF"

// P4: a Lock or TryLock that returns ErrNotReplicated has left neither hold nor ticket, so that the caller can try again at
// once. A waiter that gets the error passes the lock to the next one.
func TestAShortfallOfReplicasLeavesNothing(t *testing.T) {
	t.Parallel()
	each(t, everyKind, func(s *fixture) { s.falls(1, "0 of 1 said so") })
}

// P4: so it is if some replicas have the lock, or one does not reply.
func TestAShortfallOfSomeReplicasLeavesNothing(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, joins)
	primary := redistest.Start(t)
	replica := locktest.StartReplica(t, primary)
	for _, k := range kinds() {
		newFixture(t, k, primary).falls(2, " of 2 said so")
	}
	replica.Freeze()
	for _, k := range kinds() {
		newFixture(t, k, primary).falls(1, "0 of 1 said so")
	}
}

// falls takes the lock in each way, though fewer than n replicas will have it.
func (s *fixture) falls(n int, answered string) {
	s.Helper()
	mu := s.lock(signalbox.WithReplicas(n, 20*time.Millisecond))
	before := s.server.CommandStats()["wait"].Calls
	for range 2 {
		for _, take := range s.takes(mu) {
			lease, err := take(s.Context())
			require.ErrorIs(s, err, signalbox.ErrNotReplicated)
			require.ErrorContains(s, err, answered)
			require.Equal(s, signalbox.Lease{}, lease)
			require.False(s, s.isHeld(), "it can try again at once")
		}
	}
	if s.server != common { // which other tests use at the same time
		require.Equal(s, before+4, s.server.CommandStats()["wait"].Calls)
	}
	holder := s.must(s.against())
	waiting := s.wait(s.Context(), mu, 1)
	other := s.against()
	next := locktest.Queue(s.Context(), s, func(ctx context.Context) (signalbox.Lease, error) {
		lease, err := other.Lock(ctx)
		return signalbox.Lease{}, errors.Join(err, lease.Unlock()) // those without an order may have it in either
	})
	if s.queues != nil {
		redistest.Await(s, "a ticket", func() bool { return s.tickets() == 2 })
	}
	require.NoError(s, holder.Unlock())
	require.ErrorIs(s, locktest.MustFail(s, waiting), signalbox.ErrNotReplicated)
	require.Zero(s, locktest.MustHave(s, next))
	s.awaitFree()
}

// P1: a lock that its replica has outlives a failover, also one that was waited for.
func TestALockThatItsReplicaHasOutlivesAFailover(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, joins)
	primary := redistest.Start(t)
	replica := locktest.StartReplica(t, primary)
	sites, leases := make(map[*fixture]anyLock), make(map[*fixture]signalbox.Lease)
	for _, k := range kinds() {
		free, waited := newFixture(t, k, primary), newFixture(t, k, primary)
		option := signalbox.WithReplicas(1, 10*time.Second)
		leases[free] = free.must(free.lock(option))
		holder := waited.must(waited.against())
		waiting := waited.wait(t.Context(), waited.lock(option), 1)
		require.NoError(t, holder.Unlock())
		leases[waited] = locktest.MustHave(t, waiting)
	}
	for s := range leases {
		sites[s] = of(s.excludedBy(), locktest.SteadySession(t, replica), s.name)
	}
	for s, lease := range leases { // a new hold lasts for three seconds, which a slow machine may need for what follows
		redistest.Await(t, s.lockKind.Name+": its whole lease", func() bool { return time.Until(lease.Deadline()) > redistest.Patience })
	}
	primary.AwaitCopied(t, replica)
	primary.Kill()
	replica.MustDo(t, "REPLICAOF", "NO", "ONE")
	for s, mu := range sites {
		require.ErrorIs(t, second(mu.TryLock(t.Context())), signalbox.ErrHeld, s.lockKind.Name)
		require.NoError(t, leases[s].Err())
	}
	primary.Restart() // else closing the sessions waits for it
}
