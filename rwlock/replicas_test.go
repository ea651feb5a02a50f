// SPDX-License-Identifier: Apache-2.0

package rwlock_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
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
			mu := newLock(t, primary, "a", signalbox.WaitReplicas(n, 20*time.Millisecond))
			for _, take := range []side{tryWrite, write, tryRead, read, tryWrite} {
				require.ErrorIs(t, mustFail(t, later(t.Context(), mu, take)), signalbox.ErrNotReplicated)
				require.False(t, isHeld(t, primary, "a"), "it can try again at once")
			}
			for _, take := range []side{read, write} {
				holder := must(t, newLock(t, primary, "a"), write)
				waiting := queue(t.Context(), t, primary, mu, take, 1)
				next := queue(t.Context(), t, primary, newLock(t, primary, "a"), write, 2)
				require.NoError(t, holder.Unlock())
				require.ErrorIs(t, mustFail(t, waiting), signalbox.ErrNotReplicated)
				require.NoError(t, mustHave(t, next).Unlock())
				awaitFree(t, primary, "a")
			}
			require.Zero(t, mu.Rooms())
		})
	}
}

// P1: holds that a replica has outlive a failover, of readers and of writers, those that were waited for as well.
func TestAHoldThatItsReplicaHasOutlivesAFailover(t *testing.T) {
	t.Parallel()
	for name, side := range map[string]side{"Write": write, "Read": read} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			primary := redistest.Start(t)
			replica := startReplica(t, primary)
			holder := must(t, newLock(t, primary, "a"), write)
			waiting := queue(t.Context(), t, primary, newLock(t, primary, "a", signalbox.WaitReplicas(1, 10*time.Second)), side, 1)
			require.NoError(t, holder.Unlock())
			lease := mustHave(t, waiting)
			primary.Kill()
			replica.MustDo(t, "REPLICAOF", "NO", "ONE")
			require.ErrorIs(t, second(newLock(t, replica, "a").TryLock(t.Context())), signalbox.ErrHeld)
			require.NoError(t, lease.Err())
		})
	}
}
