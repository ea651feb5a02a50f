// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"errors"
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

// P7: one goroutine of a process at a time asks the servers, and the same sessions in another order are the same lock.
func TestGoroutinesOfAProcessAreOneContender(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, 0)
	sessions := w.sessions()
	lease := w.mustLockAll(redlock.New(sessions, w.name))
	for _, p := range w.proxies {
		p.ResetCount()
	}
	const goroutines = 32
	var waiting []<-chan locktest.Result[error]
	for range goroutines {
		mu := redlock.New(sessions, w.name)
		waiting = append(waiting, locktest.Later(func() (error, error) {
			lease, err := mu.Lock(locktest.Context(t))
			return nil, errors.Join(err, lease.Unlock())
		}))
	}
	_, err := redlock.New([]*signalbox.Session{sessions[2], sessions[0], sessions[1]}, w.name).TryLock(t.Context())
	require.ErrorIs(t, err, signalbox.ErrHeld)
	require.NoError(t, lease.Unlock())
	for _, c := range waiting {
		locktest.MustHave(t, c)
	}
	w.awaitFree()
	for _, p := range w.proxies {
		// An acquire and a release each; a few more if a late vote is taken back.
		require.Less(t, p.Requests(), 4*goroutines)
	}
}

// A name is hashed in the error too, if the sessions are no quorum and any of them hashes names.
func TestErrorsOfABadQuorumHashTheName(t *testing.T) {
	t.Parallel()
	redistest.NeedServer(t)
	sessions := []*signalbox.Session{
		locktest.SteadySession(t, shared[0]), locktest.SteadySession(t, shared[0], signalbox.WithHashedNames()), locktest.SteadySession(t, shared[0]),
	}
	for n := 2; n <= 3; n++ {
		err := redlock.New(sessions[:n], "secret").Check()
		require.ErrorIs(t, err, signalbox.ErrBadOption)
		require.ErrorContains(t, err, "%sha256-")
		require.NotContains(t, err.Error(), "secret")
	}
}

// A bad argument is the error of every call, and of Check.
func TestBadArgumentIsTheErrorOfEveryCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, 0)
	good := w.sessions()
	other := locktest.SteadySession(t, shared[0], signalbox.WithPrefix("other:"))
	hashed := locktest.SteadySession(t, shared[0], signalbox.WithHashedNames())
	bad := signalbox.NewSession(nil)
	for name, c := range map[string]struct {
		lock *redlock.Lock
		want error
	}{
		"None":           {redlock.New(nil, "a"), signalbox.ErrBadOption},
		"One":            {redlock.New(good[:1], "a"), signalbox.ErrBadOption},
		"Even":           {redlock.New(append(good[:3:3], locktest.SteadySession(t, shared[0])), "a"), signalbox.ErrBadOption},
		"Nil":            {redlock.New([]*signalbox.Session{good[0], nil, good[1]}, "a"), signalbox.ErrBadOption},
		"Bad":            {redlock.New([]*signalbox.Session{good[0], bad, good[1]}, "a"), signalbox.ErrBadOption},
		"Twice":          {redlock.New([]*signalbox.Session{good[0], good[1], good[0]}, "a"), signalbox.ErrBadOption},
		"Prefix":         {redlock.New([]*signalbox.Session{good[0], good[1], other}, "a"), signalbox.ErrBadOption},
		"Hashed":         {redlock.New([]*signalbox.Session{good[0], good[1], hashed}, "a"), signalbox.ErrBadOption},
		"Cluster":        {redlock.New([]*signalbox.Session{good[0], good[1], ofCluster(t)}, "a"), signalbox.ErrBadOption},
		"Replicas":       {redlock.New(good, "a", signalbox.WithReplicas(1, time.Second)), signalbox.ErrBadOption},
		"Lease":          {redlock.New(good, "a", signalbox.WithFixedLease(time.Millisecond)), signalbox.ErrBadOption},
		"Greatest":       {redlock.New(good, "a", redlock.GreatestLease(time.Second)), signalbox.ErrBadOption},
		"GreatestLength": {redlock.New(good, "a", redlock.GreatestLease(48*time.Hour)), signalbox.ErrBadOption},
		"Name":           {redlock.New(good, ""), signalbox.ErrBadName},
		"LongName":       {redlock.New(good, strings.Repeat("x", 513)), signalbox.ErrBadName},
	} {
		require.ErrorIs(t, c.lock.Check(), c.want, name)
		_, err := c.lock.Lock(t.Context())
		require.ErrorIs(t, err, c.want, name)
		_, err = c.lock.TryLock(t.Context())
		require.ErrorIs(t, err, c.want, name)
		_, err = c.lock.Holder(t.Context())
		require.ErrorIs(t, err, c.want, name)
		require.ErrorIs(t, c.lock.ForceUnlock(t.Context()), c.want, name)
		require.ErrorIs(t, c.lock.Do(t.Context(), nil), c.want, name)
	}
	mu := redlock.New(good, "a", nil, signalbox.LockOption(nil), signalbox.WithRenewedLease(time.Second), redlock.Fenced(), redlock.GreatestLease(time.Minute))
	require.NoError(t, mu.Check())
	_, err := mu.Lock(nil) //nolint:staticcheck // asks for it
	require.ErrorIs(t, err, signalbox.ErrBadOption)
}

// ofCluster returns a session of a cluster, of one server.
func ofCluster(t *testing.T) *signalbox.Session {
	t.Helper()
	server := redistest.Start(t, redistest.WithArgs("--cluster-enabled", "yes"))
	server.MustDo(t, "CLUSTER", "ADDSLOTSRANGE", 0, redistest.Slots-1)
	return locktest.SteadySession(t, server)
}

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
			// It listens on no channel and sends no renewals, so it does not learn that its hold has lost its quorum.
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

// P8: the holder is the one that a quorum has, and ForceUnlock ends its lease at once.
func TestTheHolderOfAQuorumIsForced(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, 0)
	hours := signalbox.WithRenewedLease(time.Hour) // so no renewal reports it
	mu := w.lock(hours)
	require.ErrorIs(t, mu.ForceUnlock(t.Context()), signalbox.ErrNotHeld)
	_, err := mu.Holder(t.Context())
	require.ErrorIs(t, err, signalbox.ErrNotHeld)
	sessions := w.sessions(signalbox.WithLabel("host:42"))
	lease := w.mustLockAll(redlock.New(sessions, w.name, hours))
	holder, err := mu.Holder(t.Context())
	require.NoError(t, err)
	require.Equal(t, "redlock", holder.Kind)
	require.Equal(t, "host:42", holder.Label)
	require.Contains(t, []string{sessions[0].ID(), sessions[1].ID(), sessions[2].ID()}, holder.Session)
	require.NoError(t, mu.ForceUnlock(t.Context()))
	redistest.Receive(t, "the end of the lease", lease.Done())
	require.ErrorIs(t, lease.Err(), signalbox.ErrLost)
	w.awaitFree()
}
