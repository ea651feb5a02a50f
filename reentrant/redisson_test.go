// SPDX-License-Identifier: Apache-2.0

package reentrant_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// The lock in the layout of Redisson, as far as Go alone can tell. test/interop has the Java client on the other side.

// shared answers the lock "a" of a session of its own.
func shared(t *testing.T, at wire, options ...signalbox.LockOption) *reentrant.Lock {
	t.Helper()
	return reentrant.New(newSession(t, at), "a", append(options, signalbox.Redisson())...)
}

// P1, P6: the second waits, and is woken.
func TestASharedLockIsHandedOnBetweenSessions(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu, other := shared(t, server), shared(t, server)
	lease := mustLock(t, mu)
	_, err := other.TryLock(t.Context())
	require.ErrorIs(t, err, signalbox.ErrHeld)
	answered := lockLater(t.Context(), other)
	require.Equal(t, []any{"a"}, server.MustDo(t, "KEYS", "*"))
	require.Equal(t, int64(1), server.MustDo(t, "HLEN", "a"))
	token := lease.Token()
	require.NoError(t, lease.Unlock())
	next := within(t, "the waiter's turn", answered)
	require.NoError(t, next.err)
	require.Greater(t, next.lease.Token(), token) // P3
	require.NoError(t, next.lease.Unlock())
	require.Equal(t, int64(0), server.MustDo(t, "DBSIZE"), "nothing is left, no floor either")
}

// P7: inside the process it is passed on without the server, and entered again.
func TestASharedLockIsPassedOnInsideTheProcess(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := shared(t, server)
	passAround(t, mu, 8)
	lease := mustLock(t, mu)
	inner, err := mu.Lock(lease.Enter(t.Context()))
	require.NoError(t, err)
	require.NoError(t, inner.Unlock())
	require.Equal(t, int64(1), server.MustDo(t, "HLEN", "a"), "it is held still, and the server counts no entries")
	require.NoError(t, lease.Unlock())
	require.Equal(t, int64(0), server.MustDo(t, "DBSIZE"))
}

// P5: a process that has had it for long gives it back although somebody waits in the process, since nobody can tell who waits elsewhere.
func TestASharedLockIsNotKeptInsideTheProcess(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu, other := shared(t, server), shared(t, server)
	lease, held := mustLock(t, mu), time.Now()
	first := server.MustDo(t, "HKEYS", "a")
	here, elsewhere := queue(t.Context(), t, mu), lockLater(t.Context(), other)
	await(t, "a waiter elsewhere", func() bool { return listeners(t, server, "redisson_lock__channel:{a}") == 1 })
	await(t, "the end of the budget of passing", func() bool { return time.Since(held) > 50*time.Millisecond })
	require.NoError(t, lease.Unlock())
	for range 2 {
		var next outcome
		select {
		case next = <-here:
		case next = <-elsewhere:
		}
		require.NoError(t, next.err)
		require.NotEqual(t, first, server.MustDo(t, "HKEYS", "a"), "the hold was passed on")
		require.Greater(t, next.lease.Token(), lease.Token())
		require.NoError(t, next.lease.Unlock())
	}
}

// P2: what another has taken is told by the next renewal.
func TestASharedLockThatAnotherTookIsLost(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	lease := mustLock(t, shared(t, server, signalbox.RenewedLease(moment)))
	server.MustDo(t, "DEL", "a")
	server.MustDo(t, "HSET", "a", "00010203-0405-0607-0809-0a0b0c0d0e0f:1", "1")
	within(t, "the end of the lease", lease.Done())
	require.ErrorIs(t, lease.Err(), signalbox.ErrLost)
	require.Equal(t, int64(1), server.MustDo(t, "HLEN", "a"), "the other's is left alone")
}

// P2: one that this library forces is told at once, whatever its lease.
func TestASharedLockIsTakenByForce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu, other := shared(t, server, signalbox.RenewedLease(longest)), shared(t, server)
	require.ErrorIs(t, other.ForceUnlock(t.Context()), signalbox.ErrNotHeld)
	lease := mustLock(t, mu)
	h, err := other.Holder(t.Context())
	require.NoError(t, err)
	require.NoError(t, other.ForceUnlock(t.Context()))
	within(t, "the end of the lease", lease.Done())
	require.ErrorIs(t, lease.Err(), signalbox.ErrLost)
	require.Regexp(t, `^[0-9a-f-]{36}:[0-9]{19}$`, h.Label)
	require.Len(t, h.Session, 22)
}

func TestWhatIsNoLockOfRedissonsIsLeftAlone(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := shared(t, server)
	server.MustDo(t, "SET", "a", "a text")
	_, err := mu.TryLock(t.Context())
	require.ErrorIs(t, err, signalbox.ErrWrongKind)
	_, err = mu.Holder(t.Context())
	require.ErrorIs(t, err, signalbox.ErrWrongKind)
	server.MustDo(t, "DEL", "a")
	server.MustDo(t, "HSET", "a", "mode", "read")
	_, err = mu.Lock(t.Context())
	require.ErrorIs(t, err, signalbox.ErrWrongKind)
	require.ErrorContains(t, err, "rwlock")
	require.ErrorIs(t, mu.ForceUnlock(t.Context()), signalbox.ErrWrongKind)
}

// P4: a Lock whose reply was lost leaves nothing.
func TestASharedLockWhoseReplyWasLostIsTakenBack(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	lease := locksWithoutReply(t, proxy, shared(t, proxy, signalbox.RenewedLease(longest)))
	require.NoError(t, lease.Unlock())
	await(t, "nothing is left", func() bool { return server.MustDo(t, "DBSIZE") == int64(0) })
}

// locksWithoutReply takes a lock though the reply to the first acquire is lost.
func locksWithoutReply(t *testing.T, proxy *redistest.Proxy, mu *reentrant.Lock) signalbox.Lease {
	t.Helper()
	require.NoError(t, mustLock(t, mu).Unlock())
	proxy.SetMatch(redistest.Commands("EVALSHA"))
	armed := proxy.Arm(redistest.Fault{Kind: redistest.CutAfterRequest})
	lease, err := mu.Lock(t.Context())
	within(t, "the fault", armed.Fired())
	require.NoError(t, err, "it is tried again under another hold")
	return lease
}

// P10, P6: also where the session polls.
func TestASharedLockIsWaitedForByPolling(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	lease := mustLock(t, shared(t, server))
	answered := lockLater(t.Context(), reentrant.New(newSession(t, server, signalbox.WithPolling()), "a", signalbox.Redisson()))
	require.NoError(t, lease.Unlock())
	next := within(t, "the poller's turn", answered)
	require.NoError(t, next.err)
	require.NoError(t, next.lease.Unlock())
}
