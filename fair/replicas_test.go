// SPDX-License-Identifier: Apache-2.0

package fair_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/locktest"
	"github.com/signalbox-go/signalbox/internal/redistest"
)

// startReplica starts a replica of a server, and returns when it has all that the server has.
func startReplica(t *testing.T, primary *redistest.Server) *redistest.Server {
	t.Helper()
	primary.MustDo(t, "CONFIG", "SET", "repl-diskless-sync-delay", "0")
	replica := redistest.Start(t)
	host, port, err := net.SplitHostPort(primary.Addr())
	require.NoError(t, err)
	replica.MustDo(t, "REPLICAOF", host, port)
	redistest.Await(t, "the link to the replica", func() bool {
		info, _ := replica.MustDo(t, "INFO", "replication").(string)
		return strings.Contains(info, "master_link_status:up")
	})
	redistest.Await(t, "a replica that answers", func() bool {
		return locktest.Integer(t, primary.MustDo(t, "WAIT", 1, 100)) == 1
	})
	return replica
}

// P4: a Lock or TryLock that returns ErrNotReplicated has left neither hold nor ticket, so that the caller can try again at
// once. A waiter that gets the error passes the lock to the next one.
func TestAShortfallOfReplicasLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(primary *redistest.Server) int{
		"NoReplica":     func(*redistest.Server) int { return 1 },
		"OneOfTwo":      func(primary *redistest.Server) int { startReplica(t, primary); return 2 },
		"FrozenReplica": func(primary *redistest.Server) int { startReplica(t, primary).Freeze(); return 1 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name != "NoReplica" {
				redistest.Slow(t, "a replica connects to its primary a second after it was told to")
			}
			primary := redistest.Start(t)
			n := set(primary)
			mu := fair.New(locktest.SteadySession(t, primary), "a", signalbox.WaitReplicas(n, 20*time.Millisecond))
			for _, take := range []func(context.Context) (signalbox.Lease, error){mu.Lock, mu.TryLock, mu.Lock} {
				lease, err := take(t.Context())
				require.ErrorIs(t, err, signalbox.ErrNotReplicated)
				require.Equal(t, signalbox.Lease{}, lease)
				require.False(t, isHeld(t, primary, "a"), "it can try again at once")
			}
			holder := locktest.Must(t, fair.New(locktest.SteadySession(t, primary), "a").Lock)
			waiting := queue(t.Context(), t, primary, mu, "a", 1)
			next := queue(t.Context(), t, primary, fair.New(locktest.SteadySession(t, primary), "a"), "a", 2)
			require.NoError(t, holder.Unlock())
			got := redistest.Receive(t, "the answer", waiting)
			require.ErrorIs(t, got.Err, signalbox.ErrNotReplicated)
			require.NoError(t, locktest.MustHave(t, next).Unlock())
			redistest.Await(t, "a free lock", func() bool { return !isHeld(t, primary, "a") && inLine(t, primary, "a") == 0 })
		})
	}
}

// P1: a lock that its replica has, also one that was waited for, outlives a failover.
func TestALockThatItsReplicaHasOutlivesAFailover(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "a replica connects to its primary a second after it was told to")
	primary := redistest.Start(t)
	replica := startReplica(t, primary)
	holder := locktest.Must(t, fair.New(locktest.SteadySession(t, primary), "a").Lock)
	waiting := queue(t.Context(), t, primary, fair.New(locktest.SteadySession(t, primary), "a", signalbox.WaitReplicas(1, 10*time.Second)), "a", 1)
	require.NoError(t, holder.Unlock())
	lease := locktest.MustHave(t, waiting)
	primary.Kill()
	replica.MustDo(t, "REPLICAOF", "NO", "ONE")
	_, err := fair.New(locktest.SteadySession(t, replica), "a").TryLock(t.Context())
	require.ErrorIs(t, err, signalbox.ErrHeld)
	require.NoError(t, lease.Err())
}
