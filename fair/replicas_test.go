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
	await(t, "the link to the replica", func() bool {
		info, _ := replica.MustDo(t, "INFO", "replication").(string)
		return strings.Contains(info, "master_link_status:up")
	})
	await(t, "a replica that answers", func() bool {
		return integer(t, primary.MustDo(t, "WAIT", 1, 100)) == 1
	})
	return replica
}

// P4: a shortfall of replicas leaves nothing when it is told, so that the caller can try again at once: it leaves neither hold nor ticket: of a lock that was free, of one that was
// tried, and of one that was waited for, which goes to the next in line.
func TestAShortfallOfReplicasLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(primary *redistest.Server) int{
		"NoReplica":     func(*redistest.Server) int { return 1 },
		"OneOfTwo":      func(primary *redistest.Server) int { startReplica(t, primary); return 2 },
		"FrozenReplica": func(primary *redistest.Server) int { startReplica(t, primary).Freeze(); return 1 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			primary := redistest.Start(t)
			n := set(primary)
			mu := fair.New(newSession(t, primary), "a", signalbox.WaitReplicas(n, 20*time.Millisecond))
			for _, take := range []func(context.Context) (signalbox.Lease, error){mu.Lock, mu.TryLock, mu.Lock, mu.TryLock} {
				lease, err := take(t.Context())
				require.ErrorIs(t, err, signalbox.ErrNotReplicated)
				require.Equal(t, signalbox.Lease{}, lease)
				require.False(t, isHeld(t, primary, "a"), "it can try again at once")
			}
			holder := mustLock(t, fair.New(newSession(t, primary), "a"))
			waiting := queue(t.Context(), t, primary, mu, "a", 1)
			next := queue(t.Context(), t, primary, fair.New(newSession(t, primary), "a"), "a", 2)
			require.NoError(t, holder.Unlock())
			got := within(t, "the answer", waiting)
			require.ErrorIs(t, got.err, signalbox.ErrNotReplicated)
			require.NoError(t, mustHave(t, next).Unlock())
			await(t, "a free lock", func() bool { return !isHeld(t, primary, "a") && inLine(t, primary, "a") == 0 })
		})
	}
}

// P1: a lock that its replica has, also one that was waited for, outlives a failover.
func TestALockThatItsReplicaHasOutlivesAFailover(t *testing.T) {
	t.Parallel()
	primary := redistest.Start(t)
	replica := startReplica(t, primary)
	holder := mustLock(t, fair.New(newSession(t, primary), "a"))
	waiting := queue(t.Context(), t, primary, fair.New(newSession(t, primary), "a", signalbox.WaitReplicas(1, 10*time.Second)), "a", 1)
	require.NoError(t, holder.Unlock())
	lease := mustHave(t, waiting)
	primary.Kill()
	replica.MustDo(t, "REPLICAOF", "NO", "ONE")
	_, err := fair.New(newSession(t, replica), "a").TryLock(t.Context())
	require.ErrorIs(t, err, signalbox.ErrHeld)
	require.NoError(t, lease.Err())
}
