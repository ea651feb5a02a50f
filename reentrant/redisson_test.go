// SPDX-License-Identifier: Apache-2.0

package reentrant_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/reentrant"
)

// The lock in the layout of Redisson, as far as Go alone can test it. test/interop has the Java client on
// the other side.

// shared returns the lock "a" of a session of its own.
func shared(t *testing.T, at redistest.Dialer, options ...signalbox.LockOption) *reentrant.Lock {
	t.Helper()
	return reentrant.New(locktest.SteadySession(t, at), "a", append(options, signalbox.WithLayout(redisson.Layout()))...)
}

// P1, P6: the second waits, and is woken.
func TestASharedLockIsHandedOffBetweenSessions(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu, other := shared(t, server), shared(t, server)
	lease := locktest.Must(t, mu.Lock)
	_, err := other.TryLock(t.Context())
	require.ErrorIs(t, err, signalbox.ErrHeld)
	returned := locktest.LaterWith(t.Context(), other.Lock)
	require.Equal(t, []any{"a"}, server.MustDo(t, "KEYS", "*"))
	require.Equal(t, int64(1), server.MustDo(t, "HLEN", "a"))
	token := lease.Token()
	require.NoError(t, lease.Unlock())
	next := locktest.MustHave(t, returned)
	require.Greater(t, next.Token(), token) // P3
	require.NoError(t, next.Unlock())
	require.Equal(t, int64(0), server.MustDo(t, "DBSIZE"), "nothing is left, no floor either")
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
func TestASharedLockWhoseReplyWasLostIsUndone(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	lease := locksWithoutReply(t, proxy, shared(t, proxy, signalbox.WithRenewedLease(longest)))
	require.NoError(t, lease.Unlock())
	redistest.Await(t, "nothing is left", func() bool { return server.MustDo(t, "DBSIZE") == int64(0) })
}

// locksWithoutReply takes a lock though the reply to the first acquire is lost.
func locksWithoutReply(t *testing.T, proxy *redistest.Proxy, mu *reentrant.Lock) signalbox.Lease {
	t.Helper()
	require.NoError(t, locktest.Must(t, mu.Lock).Unlock())
	proxy.SetMatch(redistest.Commands("EVALSHA"))
	armed := proxy.Arm(redistest.Fault{Kind: redistest.CutAfterRequest})
	lease, err := mu.Lock(t.Context())
	redistest.Receive(t, "the fault", armed.Fired())
	require.NoError(t, err, "it is tried again under another hold")
	return lease
}

// P7: it is entered again without the server, which counts no entries.
func TestASharedLockIsEnteredAgainWithoutTheServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := shared(t, server)
	lease := locktest.Must(t, mu.Lock)
	inner, err := mu.Lock(lease.Enter(t.Context()))
	require.NoError(t, err)
	require.NoError(t, inner.Unlock())
	require.Equal(t, int64(1), server.MustDo(t, "HLEN", "a"), "it is held still")
	require.NoError(t, lease.Unlock())
	require.Equal(t, int64(0), server.MustDo(t, "DBSIZE"))
}

// Redisson keeps no queue for its RLock and its RFencedLock: a call that would list it says so, and sends nothing.
func TestWaitersOfASharedLockAreABadOption(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := locktest.SteadySession(t, server)
	for name, mu := range map[string]*reentrant.Lock{
		"RLock":       reentrant.New(s, "a", signalbox.WithLayout(redisson.Layout())),
		"RFencedLock": reentrant.New(s, "a", signalbox.WithLayout(redisson.Layout(redisson.Fenced))),
	} {
		n := 0
		for w, err := range mu.Waiters(t.Context()) {
			require.ErrorIs(t, err, signalbox.ErrBadOption, name)
			require.ErrorContains(t, err, "has no queue at the server", name)
			require.Zero(t, w, name)
			n++
		}
		require.Equal(t, 1, n, name)
	}
}
