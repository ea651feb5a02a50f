// SPDX-License-Identifier: Apache-2.0

package reentrant_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// cutOff lets a replica go without a trace of what the primary writes from now on: it can neither
// keep its link nor make a new one. A replica that is merely frozen gets it when it thaws.
func cutOff(t *testing.T, primary *redistest.Server) {
	t.Helper()
	primary.MustDo(t, "ACL", "SETUSER", "default", "-psync", "-sync", "-replconf")
	primary.MustDo(t, "CLIENT", "KILL", "TYPE", "replica")
	redistest.Await(t, "a primary without a replica", func() bool {
		info, _ := primary.MustDo(t, "INFO", "replication").(string)
		return strings.Contains(info, "connected_slaves:0")
	})
}

// waits returns how often a server was asked to wait for its replicas.
func waits(server *redistest.Server) int64 { return server.CommandStats()["wait"].Calls }

// P1: a failover that loses the write grants the lock twice. This is what the option is for, and the
// proof that the tests below could fail.
func TestAFailoverLosesALockThatNoReplicaHas(t *testing.T) {
	t.Parallel()
	primary := redistest.Start(t)
	replica := locktest.StartReplica(t, primary)
	cutOff(t, primary)
	lease := locktest.Must(t, reentrant.New(locktest.SteadySession(t, primary), "a").Lock)
	primary.Kill()
	replica.MustDo(t, "REPLICAOF", "NO", "ONE")
	second, err := reentrant.New(locktest.SteadySession(t, replica), "a").TryLock(t.Context())
	require.NoError(t, err, "the write was not lost: the failover of this test is none")
	require.NoError(t, lease.Err())
	require.Greater(t, second.Token(), lease.Token(), "P3: what is left then")
	require.NoError(t, second.Unlock())
	primary.Restart() // or closing the session would wait for it
}

// P1: with the option no lock is granted that the failover would lose.
func TestALockThatNoReplicaHasIsNotGranted(t *testing.T) {
	t.Parallel()
	primary := redistest.Start(t)
	locktest.StartReplica(t, primary)
	cutOff(t, primary)
	mu := reentrant.New(locktest.SteadySession(t, primary), "a", signalbox.WithReplicas(1, 50*time.Millisecond))
	_, err := mu.Lock(t.Context())
	require.ErrorIs(t, err, signalbox.ErrNotReplicated)
	redistest.Await(t, "the lock is free", func() bool { return !isHeld(t, primary, "a") })
}

// P4: nothing is left when the call returns, so that the caller can try again at once.
func TestAShortfallOfReplicasLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(t *testing.T, primary *redistest.Server) (n int, refusal string){
		"NoReplica": func(*testing.T, *redistest.Server) (int, string) { return 1, "0 of 1 said so" },
		"OneOfTwo": func(t *testing.T, primary *redistest.Server) (int, string) {
			locktest.StartReplica(t, primary)
			return 2, " of 2 said so"
		},
		"FrozenReplica": func(t *testing.T, primary *redistest.Server) (int, string) {
			locktest.StartReplica(t, primary).Freeze()
			return 1, "0 of 1 said so"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			primary := redistest.Start(t)
			n, refusal := set(t, primary)
			before := waits(primary)
			mu := reentrant.New(locktest.SteadySession(t, primary), "a", signalbox.WithReplicas(n, 20*time.Millisecond))
			for _, lock := range []func(context.Context) (signalbox.Lease, error){mu.Lock, mu.TryLock, mu.Lock, mu.TryLock} {
				lease, err := lock(t.Context())
				require.ErrorIs(t, err, signalbox.ErrNotReplicated)
				require.ErrorContains(t, err, refusal)
				require.Equal(t, signalbox.Lease{}, lease)
				requireFree(t, mu)
			}
			require.Equal(t, before+4, waits(primary))
		})
	}
}

// P7: none but the acquire waits: entering again and handing the lock over inside the process do not.
func TestOnlyTheAcquireWaitsForReplicas(t *testing.T) {
	t.Parallel()
	primary := redistest.Start(t)
	locktest.StartReplica(t, primary)
	s := locktest.SteadySession(t, primary)
	mu := reentrant.New(s, "a", signalbox.WithReplicas(1, 5*time.Second))
	lease := locktest.Must(t, mu.Lock)
	before := waits(primary)
	inner, err := mu.Lock(lease.Enter(t.Context()))
	require.NoError(t, err)
	require.NoError(t, inner.Unlock())
	waiting := locktest.Queue(t.Context(), t, mu.Lock)
	require.NoError(t, lease.Unlock())
	passed := locktest.MustHave(t, waiting)
	if requireHolder(t, mu).Token == passed.Token() {
		before++ // the turn was over on a busy machine, and this is a hold of its own
	}
	require.NoError(t, passed.Unlock())
	require.Equal(t, before, waits(primary))
	require.Equal(t, int64(1), primary.SentBy(func() {
		lease := locktest.Must(t, mu.Lock)
		require.NoError(t, lease.Unlock())
	})["wait"])
}

// P7: nor does a renewal.
func TestRenewalDoesNotWaitForReplicas(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "a server without WAIT is all that virtual time has")
	primary := redistest.Start(t)
	locktest.StartReplica(t, primary)
	mu := reentrant.New(locktest.SteadySession(t, primary), "a",
		signalbox.WithReplicas(1, time.Second), signalbox.WithRenewedLease(6*time.Second))
	lease := locktest.Must(t, mu.Lock)
	before, deadline := waits(primary), lease.Deadline()
	redistest.Await(t, "a renewal", func() bool { return lease.Deadline().After(deadline.Add(100 * time.Millisecond)) })
	require.Equal(t, before, waits(primary))
	require.NoError(t, lease.Unlock())
}

// A caller that asks for replicas is not handed a hold that was granted without them.
func TestAHoldIsNotHandedToACallerThatAsksForMore(t *testing.T) {
	t.Parallel()
	primary := redistest.Start(t)
	locktest.StartReplica(t, primary)
	s := locktest.SteadySession(t, primary)
	plain := locktest.Must(t, reentrant.New(s, "a").Lock)
	before := waits(primary)
	waiting := locktest.Queue(t.Context(), t, reentrant.New(s, "a", signalbox.WithReplicas(1, 10*time.Second)).Lock)
	require.NoError(t, plain.Unlock())
	got := locktest.MustHave(t, waiting)
	require.Greater(t, waits(primary), before)
	require.NoError(t, got.Unlock())
}

func TestALockWithReplicasWaitsForItsHolder(t *testing.T) {
	t.Parallel()
	primary := redistest.Start(t)
	locktest.StartReplica(t, primary)
	holder := locktest.Must(t, reentrant.New(locktest.SteadySession(t, primary), "a").Lock)
	mu := reentrant.New(locktest.SteadySession(t, primary), "a", signalbox.WithReplicas(1, 10*time.Second))
	_, err := mu.TryLock(t.Context())
	require.ErrorIs(t, err, signalbox.ErrHeld)
	waiting := locktest.Enqueue(t.Context(), t, primary, "a", mu.Lock)
	require.NoError(t, holder.Unlock())
	got := locktest.MustHave(t, waiting)
	require.NoError(t, got.Unlock())
}

// P10: the acquire is undone where the server refuses to say what replicas have.
func TestADeniedWaitIsErrDenied(t *testing.T) {
	t.Parallel()
	primary := redistest.Start(t)
	primary.MustDo(t, "ACL", "SETUSER", "limited", "on", ">secret", "~*", "&*", "+@all", "-wait")
	s := signalbox.NewSession(locktest.ClientAs(t, primary, "limited", "secret"))
	t.Cleanup(func() { _ = s.Close(locktest.Ended()) })
	mu := reentrant.New(s, "a", signalbox.WithReplicas(1, time.Second))
	_, err := mu.Lock(t.Context())
	require.ErrorIs(t, err, signalbox.ErrDenied)
	redistest.Await(t, "the lock is free", func() bool { return !isHeld(t, primary, "a") }) // long before its lease ends
}

// P4: the end of the context ends the wait at once, and what was granted is taken back.
func TestACancelledWaitForReplicasLeavesNothing(t *testing.T) {
	t.Parallel()
	primary := redistest.Start(t)
	locktest.StartReplica(t, primary).Freeze()
	mu := reentrant.New(locktest.SteadySession(t, primary), "a", signalbox.WithRenewedLease(time.Hour), signalbox.WithReplicas(1, time.Minute))
	for range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		refusal := locktest.LaterWith(ctx, mu.Lock)
		redistest.Await(t, "the grant", func() bool { return isHeld(t, primary, "a") })
		cancel()
		require.ErrorIs(t, redistest.Receive(t, "the end of the call", refusal).Err, context.Canceled)
		redistest.Await(t, "the lock is free", func() bool { return !isHeld(t, primary, "a") })
	}
}

// P4, P5: whichever replies are lost, the lock is acquired in the end, once.
func TestALostReplyOfReplicasIsResolved(t *testing.T) {
	t.Parallel()
	primary := redistest.Start(t)
	locktest.StartReplica(t, primary)
	for _, c := range []struct {
		command string
		kind    redistest.FaultKind
	}{
		{"EVALSHA", redistest.CutBeforeRequest},
		{"EVALSHA", redistest.CutAfterRequest},
		{"EVALSHA", redistest.SwallowRequest},
		{"WAIT", redistest.CutBeforeRequest},
		{"WAIT", redistest.CutAfterRequest},
		{"WAIT", redistest.SwallowReply},
	} {
		name := c.kind.String() + "/" + c.command
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.kind != redistest.CutAfterRequest {
				redistest.Slow(t, "a client gives up a silent connection by its own timers")
			}
			proxy := redistest.NewProxy(t, primary.Addr())
			mu := reentrant.New(locktest.Session(t, proxy), name, signalbox.WithReplicas(1, 3*time.Second))
			require.NoError(t, locktest.Must(t, mu.Lock).Unlock()) // scripts are known from here on
			proxy.SetMatch(func(req []string) bool {
				return req[0] == c.command && (req[0] == "WAIT" || req[3] == locktest.Key(name))
			})
			proxy.ResetCount()
			fault := proxy.Arm(redistest.Fault{Kind: c.kind})
			lease := locktest.Must(t, mu.Lock)
			require.True(t, fault.HasFired())
			require.NoError(t, lease.Err())
			require.Equal(t, lease.Token(), requireHolder(t, reentrant.New(locktest.SteadySession(t, primary), name)).Token)
			require.NoError(t, lease.Unlock())
			requireFree(t, mu)
		})
	}
}

// A Locker waits for replicas as for a server.
func TestALockerWaitsForReplicas(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "a Locker pauses between its tries, and a replica joins")
	primary := redistest.Start(t)
	locker := reentrant.New(locktest.SteadySession(t, primary), "a", signalbox.WithReplicas(1, 100*time.Millisecond)).Locker(t.Context())
	locked := make(chan struct{})
	go func() {
		locker.Lock()
		close(locked)
	}()
	redistest.Await(t, "a second try", func() bool { return waits(primary) >= 3 })
	require.False(t, locktest.IsClosed(locked))
	locktest.StartReplica(t, primary)
	redistest.Receive(t, "the lock", locked)
	locker.Unlock()
}
