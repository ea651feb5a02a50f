// SPDX-License-Identifier: Apache-2.0

package rwlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/rwlock"
	"github.com/signalbox-go/signalbox/scripts"
)

// The lock in the layout of Redisson, as far as Go alone can tell. test/interop has the Java client on the other side.

// shared answers the lock "a" of a session of its own.
func shared(t *testing.T, at dialer, options ...signalbox.LockOption) *rwlock.Lock {
	t.Helper()
	return rwlock.New(newSession(t, at), "a", append(options, signalbox.Redisson())...)
}

// awaitEmpty waits until the server has no key.
func awaitEmpty(t *testing.T, server *redistest.Server) {
	t.Helper()
	await(t, "no key is left", func() bool { return server.MustDo(t, "DBSIZE") == int64(0) })
}

// awaitHeard waits until so many sessions listen for the lock "a".
func awaitHeard(t *testing.T, server *redistest.Server, n int64) {
	t.Helper()
	await(t, "listeners", func() bool {
		reply, _ := server.MustDo(t, "PUBSUB", "NUMSUB", "redisson_rwlock:{a}").([]any)
		return reply[1] == n
	})
}

// P1, P3, P6: writers alone, readers beside each other, over sessions and goroutines; nothing is left.
func TestASharedWriterIsAloneAndTokensRise(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	work(t, func() *rwlock.Lock { return shared(t, server) })
	awaitEmpty(t, server)
}

// P7: readers of a session share a hold, and those of another have one of their own; who counts its own time has its own.
func TestSharedReadersOfASessionShareAHold(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	one, other := shared(t, server), shared(t, server)
	leases := []signalbox.Lease{must(t, one, read), must(t, one, read), must(t, one, tryRead), must(t, other, read)}
	require.Equal(t, int64(3), server.MustDo(t, "HLEN", "a"), "two holds, and the mode")
	fixed := shared(t, server, signalbox.FixedLease(time.Hour))
	leases = append(leases, must(t, fixed, read), must(t, fixed, tryRead))
	require.Equal(t, int64(5), server.MustDo(t, "HLEN", "a"))
	_, err := other.TryLock(t.Context())
	require.ErrorIs(t, err, signalbox.ErrHeld)
	writer := later(t.Context(), other, write)
	awaitHeard(t, server, 1)
	beside, err := one.TryRLock(t.Context())
	require.NoError(t, err, "past a writer that waits")
	for _, lease := range append(leases, beside) {
		require.False(t, isClosed(writer))
		require.NoError(t, lease.Err())
		require.NoError(t, lease.Unlock())
	}
	lease := mustHave(t, writer)
	_, err = one.TryRLock(t.Context())
	require.ErrorIs(t, err, signalbox.ErrHeld)
	require.NoError(t, lease.Unlock())
	awaitEmpty(t, server)
}

// P7: readers of a session come in by one hold when a writer is done, however many wait.
func TestSharedReadersComeInTogether(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	one, other := shared(t, server), shared(t, server)
	lease := must(t, one, write)
	ctx, cancel := context.WithCancel(t.Context())
	leader := later(ctx, other, read)
	awaitHeard(t, server, 1)
	var waiting []<-chan outcome
	for n := range 10 {
		waiting = append(waiting, follow(t.Context(), t, other, n+1))
	}
	cancel() // the next leads on in its place
	err := mustFail(t, leader)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, signalbox.ErrHeld)
	require.NoError(t, lease.Unlock())
	for _, w := range waiting {
		require.NoError(t, mustHave(t, w).Err())
	}
	require.Equal(t, int64(2), server.MustDo(t, "HLEN", "a"), "one hold, and the mode")
}

// A writer becomes a reader in one step, and readers come in.
func TestASharedWriterIsDowngraded(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	one, other := shared(t, server), shared(t, server)
	lease := must(t, one, write)
	reader := later(t.Context(), other, read)
	awaitHeard(t, server, 1)
	require.NoError(t, one.Downgrade(t.Context(), lease))
	second := mustHave(t, reader)
	require.Greater(t, second.Token(), lease.Token())
	_, err := other.TryLock(t.Context())
	require.ErrorIs(t, err, signalbox.ErrHeld)
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Unlock())
	require.NoError(t, second.Err())
	require.NoError(t, second.Unlock())
	awaitEmpty(t, server)
}

// P2: a reader and a writer are renewed, also one that was downgraded; what another took is told by the next renewal.
func TestASharedHoldIsRenewedAndMissed(t *testing.T) {
	t.Parallel()
	for name, take := range map[string]func(*testing.T, *rwlock.Lock) signalbox.Lease{
		"Reader": func(t *testing.T, mu *rwlock.Lock) signalbox.Lease { t.Helper(); return must(t, mu, read) },
		"Writer": func(t *testing.T, mu *rwlock.Lock) signalbox.Lease { t.Helper(); return must(t, mu, write) },
		"Downgraded": func(t *testing.T, mu *rwlock.Lock) signalbox.Lease {
			t.Helper()
			lease := must(t, mu, write)
			require.NoError(t, mu.Downgrade(t.Context(), lease))
			return lease
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			lease := take(t, shared(t, server, signalbox.RenewedLease(steady)))
			for _, key := range server.Keys("*") {
				before := integer(t, server.MustDo(t, "PEXPIRETIME", key))
				await(t, "two renewals", func() bool { return integer(t, server.MustDo(t, "PEXPIRETIME", key)) >= before+steady.Milliseconds()/2 })
			}
			require.NoError(t, lease.Err())
			server.MustDo(t, "DEL", "a")
			within(t, "the end of the lease", lease.Done())
			require.ErrorIs(t, lease.Err(), signalbox.ErrLost)
			awaitEmpty(t, server)
		})
	}
}

// P2: holds that this library forces are told at once, whatever their lease; and are listed before.
func TestASharedReadWriteLockIsTakenByForce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	one, other := shared(t, server), shared(t, server)
	require.ErrorIs(t, other.ForceUnlock(t.Context()), signalbox.ErrNotHeld)
	for _, take := range []side{read, write} {
		lease := must(t, one, take)
		isLocked, err := other.IsLocked(t.Context())
		require.NoError(t, err)
		require.True(t, isLocked)
		for h, err := range other.Holders(t.Context()) {
			require.NoError(t, err)
			require.Regexp(t, `^[0-9a-f-]{36}:[0-9]{19}$`, h.Label)
			require.Len(t, h.Session, 22)
			require.Zero(t, h.Token)
			require.Zero(t, h.Since)
			require.True(t, h.Until.After(time.Now()))
		}
		require.NoError(t, other.ForceUnlock(t.Context()))
		within(t, "the end of the lease", lease.Done())
		require.ErrorIs(t, lease.Err(), signalbox.ErrLost)
		awaitEmpty(t, server)
	}
}

// P9: a lock of another kind, or what is none, is told.
func TestASharedLockOfAnotherKindIsTold(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := shared(t, server)
	server.MustDo(t, "HSET", "a", "00010203-0405-0607-0809-0a0b0c0d0e0f:1", "1")
	for _, take := range []side{read, write, tryRead, tryWrite} {
		_, err := take(mu, t.Context())
		require.ErrorIs(t, err, signalbox.ErrWrongKind)
		require.ErrorContains(t, err, "reentrant")
	}
	require.ErrorIs(t, mu.ForceUnlock(t.Context()), signalbox.ErrWrongKind)
}

// P4, P5: a call whose reply was lost leaves nothing.
func TestASharedLockWhoseReplyWasLostIsTakenOnce(t *testing.T) {
	t.Parallel()
	for name, take := range map[string]side{"Reader": read, "Writer": write} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			proxy := redistest.NewProxy(t, server.Addr())
			mu := shared(t, proxy)
			require.NoError(t, must(t, mu, take).Unlock()) // so that the script is there
			proxy.SetMatch(isOf(scripts.RedissonRWAcquire, scripts.RedissonRWRelease))
			armed := proxy.Arm(redistest.Fault{Kind: redistest.CutAfterRequest})
			lease := must(t, mu, take)
			within(t, "the fault", armed.Fired())
			require.Equal(t, int64(2), server.MustDo(t, "HLEN", "a"), "one hold, and the mode")
			armed = proxy.Arm(redistest.Fault{Kind: redistest.CutAfterRequest})
			require.ErrorIs(t, lease.Unlock(), signalbox.ErrUnconfirmed)
			within(t, "the fault", armed.Fired())
			awaitEmpty(t, server)
		})
	}
}

// P10, P6: also where the session polls.
func TestASharedReadWriteLockIsWaitedForByPolling(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	lease := must(t, shared(t, server), write)
	poller := rwlock.New(newSession(t, server, signalbox.WithPolling()), "a", signalbox.Redisson())
	reader, writer := later(t.Context(), poller, read), later(t.Context(), poller, write)
	require.NoError(t, lease.Unlock())
	for range 2 { // in whatever order
		select {
		case got := <-reader:
			require.NoError(t, got.err)
			require.NoError(t, got.lease.Unlock())
		case got := <-writer:
			require.NoError(t, got.err)
			require.NoError(t, got.lease.Unlock())
		case <-time.NewTimer(patience).C:
			require.FailNow(t, "nobody comes in")
		}
	}
}

// P4: Close gives back what is held, and sends away who waits.
func TestASessionThatClosesGivesSharedLocksBack(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server)
	mu, other := rwlock.New(s, "a", signalbox.Redisson()), shared(t, server)
	lease := must(t, mu, read)
	writers := []<-chan outcome{later(t.Context(), mu, write), later(t.Context(), mu, write)}
	waits := later(t.Context(), other, write)
	awaitHeard(t, server, 2)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, s.Close(ended))
	require.ErrorIs(t, lease.Err(), signalbox.ErrLost)
	for _, w := range writers {
		require.ErrorIs(t, mustFail(t, w), signalbox.ErrClosed)
	}
	require.NoError(t, mustHave(t, waits).Unlock())
	awaitEmpty(t, server)
}

// P2, P8: a lease with an end of its own ends by then, and who waits comes in.
func TestASharedLeaseEndsByItself(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for name, option := range map[string]signalbox.LockOption{
		"Fixed": signalbox.FixedLease(500 * time.Millisecond), "MaxHold": signalbox.MaxHold(500 * time.Millisecond),
	} {
		for _, take := range []side{read, write} {
			lease := must(t, shared(t, server, option), take)
			next := must(t, shared(t, server), write)
			require.Error(t, lease.Err(), name)
			require.NoError(t, next.Unlock())
			awaitEmpty(t, server)
		}
	}
}

// P4: a shortfall of replicas leaves nothing, and where they have it the hold is given.
func TestASharedHoldIsOneThatReplicasHave(t *testing.T) {
	t.Parallel()
	primary := redistest.Start(t)
	short := shared(t, primary, signalbox.WaitReplicas(1, 20*time.Millisecond))
	for _, take := range []side{tryWrite, write, tryRead, read} {
		require.ErrorIs(t, mustFail(t, later(t.Context(), short, take)), signalbox.ErrNotReplicated)
		awaitEmpty(t, primary)
	}
	replica := startReplica(t, primary)
	mu := shared(t, primary, signalbox.WaitReplicas(1, 20*time.Second))
	for _, take := range []side{write, read} {
		lease := must(t, mu, take)
		require.Equal(t, int64(2), replica.MustDo(t, "HLEN", "a"))
		require.NoError(t, lease.Unlock())
	}
}
