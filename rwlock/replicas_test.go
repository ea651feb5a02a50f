// SPDX-License-Identifier: Apache-2.0

package rwlock_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/locktest"
	"github.com/signalbox-go/signalbox/internal/redistest"
)

// startReplica starts a replica of a server, and returns when it has all that the server has.
func startReplica(t *testing.T, primary *redistest.Server) site {
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
	return site{t, replica, "a"}
}

// P4: a shortfall of replicas leaves nothing when it is told, so that the caller can try again at once: it leaves neither hold nor ticket: of a lock that was free, of one that was
// tried, and of one that was waited for, which goes to the next in line.
func TestAShortfallOfReplicasLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(primary *redistest.Server) int{
		"NoReplica":     func(*redistest.Server) int { return 1 },
		"OneOfTwo":      func(primary *redistest.Server) int { startReplica(t, primary); return 2 },
		"FrozenReplica": func(primary *redistest.Server) int { startReplica(t, primary).server.Freeze(); return 1 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := alone(t)
			n := set(w.server)
			mu := w.lock(signalbox.WaitReplicas(n, time.Millisecond))
			for _, take := range []side{tryWrite, write, tryRead, read, tryWrite} {
				require.ErrorIs(t, locktest.MustFail(t, later(t.Context(), mu, take)), signalbox.ErrNotReplicated)
				require.False(t, w.isHeld(), "it can try again at once")
			}
			for _, take := range []side{read, write} {
				holder := must(t, w.lock(), write)
				waiting := w.queue(t.Context(), mu, take, 1)
				next := w.queue(t.Context(), w.lock(), write, 2)
				require.NoError(t, holder.Unlock())
				require.ErrorIs(t, locktest.MustFail(t, waiting), signalbox.ErrNotReplicated)
				require.NoError(t, locktest.MustHave(t, next).Unlock())
				w.awaitFree()
			}
			require.Zero(t, mu.Rooms())
		})
	}
}

// P1: holds that a replica has outlive a failover, of readers and of writers, those that were waited for as well.
func TestAHoldThatItsReplicaHasOutlivesAFailover(t *testing.T) {
	t.Parallel()
	for name, side := range sides() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := alone(t)
			replica := startReplica(t, w.server)
			holder := must(t, w.lock(), write)
			waiting := w.queue(t.Context(), w.lock(signalbox.WaitReplicas(1, redistest.Patience)), side, 1)
			require.NoError(t, holder.Unlock())
			lease := locktest.MustHave(t, waiting)
			w.server.Kill()
			replica.server.MustDo(t, "REPLICAOF", "NO", "ONE")
			require.ErrorIs(t, second(replica.lock().TryLock(t.Context())), signalbox.ErrHeld)
			require.NoError(t, lease.Err())
			w.server.Restart() // else Close waits a second for it
		})
	}
}
