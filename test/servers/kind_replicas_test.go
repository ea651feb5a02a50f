// SPDX-License-Identifier: Apache-2.0

package servers_test

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

// replicaJoins is why tests with replicas are slow.
const replicaJoins = "a replica connects to its primary a second after REPLICAOF"

// P4: a Lock or TryLock that returns ErrNotReplicated has left neither hold nor ticket, so that the caller can try again at
// once. A waiter that gets the error passes the lock to the next one.
func TestAShortfallOfReplicasLeavesNothing(t *testing.T) {
	t.Parallel()
	each(t, everyKind, func(f *kindFixture) { f.falls(1, "0 of 1 said so") })
}

// P4: so it is if some replicas have the lock, or one does not reply.
func TestAShortfallOfSomeReplicasLeavesNothing(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, replicaJoins)
	primary := redistest.Start(t)
	replica := locktest.StartReplica(t, primary)
	for _, k := range lockKinds() {
		newKindFixture(t, k, primary).falls(2, " of 2 said so")
	}
	replica.Freeze()
	for _, k := range lockKinds() {
		newKindFixture(t, k, primary).falls(1, "0 of 1 said so")
	}
}

// falls takes the lock in each way, though fewer than n replicas will have it.
func (f *kindFixture) falls(n int, refusal string) {
	f.Helper()
	mu := f.lock(signalbox.WithReplicas(n, 20*time.Millisecond))
	before := f.server.CommandStats()["wait"].Calls
	for range 2 {
		for _, take := range takers {
			lease, err := take(mu, f.Context())
			require.ErrorIs(f, err, signalbox.ErrNotReplicated)
			require.ErrorContains(f, err, refusal)
			require.Equal(f, signalbox.Lease{}, lease)
			require.False(f, f.isHeld(), "it can try again at once")
		}
	}
	if f.server != common { // which other tests use at the same time
		require.Equal(f, before+4, f.server.CommandStats()["wait"].Calls)
	}
	holder := f.must(f.against())
	waiting := f.wait(f.Context(), mu, 1)
	other := f.against()
	next := locktest.Queue(f.Context(), f, func(ctx context.Context) (signalbox.Lease, error) {
		lease, err := other.Lock(ctx)
		return signalbox.Lease{}, errors.Join(err, lease.Unlock()) // those without an order may have it in either
	})
	if f.queued == nil {
		redistest.Await(f, "a ticket", func() bool { return f.tickets() == 2 })
	}
	require.NoError(f, holder.Unlock())
	require.ErrorIs(f, locktest.MustFail(f, waiting), signalbox.ErrNotReplicated)
	require.Zero(f, locktest.MustHave(f, next))
	f.awaitFree()
}

// P1: a lock that its replica has outlives a failover, also one that was waited for.
func TestALockThatItsReplicaHasOutlivesAFailover(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, replicaJoins)
	primary := redistest.Start(t)
	replica := locktest.StartReplica(t, primary)
	sites, leases := make(map[*kindFixture]anyLock), make(map[*kindFixture]signalbox.Lease)
	for _, k := range lockKinds() {
		free, waited := newKindFixture(t, k, primary), newKindFixture(t, k, primary)
		option := signalbox.WithReplicas(1, 10*time.Second)
		leases[free] = free.must(free.lock(option))
		holder := waited.must(waited.against())
		waiting := waited.wait(t.Context(), waited.lock(option), 1)
		require.NoError(t, holder.Unlock())
		leases[waited] = locktest.MustHave(t, waiting)
	}
	for f := range leases {
		sites[f] = lockOf(f.excludedBy(), locktest.SteadySession(t, replica), f.name)
	}
	for f, lease := range leases { // a new hold lasts for three seconds, which a slow machine may need for what follows
		redistest.Await(t, f.lockKind.Name+": its whole lease", func() bool { return time.Until(lease.Deadline()) > redistest.Patience })
	}
	primary.AwaitCopied(t, replica)
	primary.Kill()
	replica.MustDo(t, "REPLICAOF", "NO", "ONE")
	for f, mu := range sites {
		require.ErrorIs(t, second(mu.TryLock(t.Context())), signalbox.ErrHeld, f.lockKind.Name)
		require.NoError(t, leases[f].Err())
	}
	primary.Restart() // else closing the sessions waits for it
}
