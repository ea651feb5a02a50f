// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/redlock"
)

// P1: a server that restarted votes for no process, though its data is there again: it may have forgotten a hold. It
// would be the second of three that has nothing of this one. How long it does not vote is in test/virtual.
func TestServerThatRestartedGrantsNothing(t *testing.T) {
	t.Parallel()
	for name, loss := range map[string]func(w *world){
		"Empty": func(w *world) { w.servers[0].Restart() },
		"RestoredFromASnapshot": func(w *world) {
			epoch := w.servers[0].MustDo(w, "GET", "sb:epoch")
			w.servers[0].Restart()
			w.servers[0].MustDo(w, "SET", "sb:epoch", epoch, "PX", 604800000)
		},
		"ReplicaThatTookOver": func(w *world) {
			host, port, err := net.SplitHostPort(w.servers[0].Addr())
			require.NoError(w, err)
			w.servers[0].MustDo(w, "CONFIG", "SET", "repl-diskless-sync-delay", 0)
			replica := redistest.Start(w)
			replica.MustDo(w, "REPLICAOF", host, port)
			redistest.Await(w, "the epoch at the replica", func() bool {
				reply, err := replica.Do("EXISTS", "sb:epoch")
				return err == nil && reply == int64(1)
			})
			replica.MustDo(w, "REPLICAOF", "NO", "ONE")
			replica.MustDo(w, "DEL", locktest.Key(w.name)) // the replica may not have had the grant
			w.servers[0], w.proxies[0] = replica, redistest.NewProxy(w, replica.Addr())
		},
		"ReplicaThatTookOverForAMoment": func(w *world) {
			replica := locktest.StartReplica(w, w.servers[0])
			replica.MustDo(w, "CONFIG", "SET", "repl-diskless-sync-delay", 0)
			replica.MustDo(w, "REPLICAOF", "NO", "ONE")
			replica.MustDo(w, "DEL", locktest.Key(w.name))
			host, port, err := net.SplitHostPort(replica.Addr())
			require.NoError(w, err)
			w.servers[0].MustDo(w, "REPLICAOF", host, port)
			redistest.Await(w, "the data of the replica", func() bool {
				reply, err := w.servers[0].Do("EXISTS", locktest.Key(w.name))
				return err == nil && reply == int64(0)
			})
			w.servers[0].MustDo(w, "REPLICAOF", "NO", "ONE")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 3, 1)
			w.servers[1].MustDo(t, "SET", locktest.Key(w.name), foreign(), "PX", 60_000) // so the hold is a bare quorum
			// One that listens on no channel, and asks for nothing: it does not learn that its hold is no quorum's any more.
			long := signalbox.WithFixedLease(time.Hour)
			lease := locktest.Must(t, redlock.New(w.sessions(signalbox.WithPolling()), w.name, long).Lock)
			require.Equal(t, 3, w.holds())
			loss(w)
			w.servers[1].MustDo(t, "DEL", locktest.Key(w.name)) // the other hold ends
			err := mustFail(t, w.lock(long), signalbox.ErrRefused)
			require.ErrorContains(t, err, "server 1 of 3")
			require.ErrorContains(t, err, "lost its data lately")
			require.NoError(t, lease.Err())
		})
	}
}

// P9: a key of another kind on a minority costs its votes; on a quorum it is the error.
func TestKeyOfAnotherKindIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, 0)
	key := locktest.Key(w.name)
	w.servers[0].MustDo(t, "RPUSH", key, "x")
	t.Cleanup(func() { w.servers[0].MustDo(t, "DEL", key) })
	mu := w.lock()
	require.NoError(t, locktest.Must(t, mu.Lock).Unlock())
	w.awaitFree()
	theirs := locktest.Reentrant().New(locktest.SteadySession(t, w.servers[1]), w.name)
	other := locktest.Must(t, theirs.Lock)
	mustFail(t, mu, signalbox.ErrWrongKind)
	_, err := mu.Lock(locktest.Context(t))
	require.ErrorIs(t, err, signalbox.ErrWrongKind)
	require.ErrorContains(t, err, "server 1 of 3")
	require.ErrorContains(t, err, "(reentrant or fair)")
	require.NoError(t, other.Unlock())
	require.Equal(t, "list", w.servers[0].MustDo(t, "TYPE", key))

	lease := locktest.Must(t, mu.Lock)
	_, err = theirs.TryLock(locktest.Context(t))
	require.ErrorIs(t, err, signalbox.ErrWrongKind)
	require.ErrorContains(t, err, "(redlock)")
	require.NoError(t, lease.Unlock())
	require.True(t, strings.HasPrefix(w.value(1), "sb1-"))
}
