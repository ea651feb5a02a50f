// SPDX-License-Identifier: Apache-2.0

package reentrant_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/reentrant"
)

// The lock of Redisson's RFencedLock, as far as Go alone can test it. test/interop has the Java client on
// the other side.

// counter is the key of the tokens of the lock "a".
const counter = "redisson_lock_token:{a}"

// fenced returns the lock "a" of a session of its own.
func fenced(t *testing.T, at redistest.Dialer, options ...signalbox.LockOption) *reentrant.Lock {
	t.Helper()
	return reentrant.New(locktest.SteadySession(t, at), "a", append(options, signalbox.WithLayout(redisson.Layout(redisson.Fenced)))...)
}

// P3: tokens are the numbers of the counter, one a hold, in whatever process; entering again keeps its own.
func TestAFencedLockHasTheNumbersOfItsCounter(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.MustDo(t, "SET", counter, "41")
	mu, other := fenced(t, server), fenced(t, server)
	for token := uint64(42); token < 50; token += 2 {
		lease := locktest.Must(t, mu.Lock)
		require.Equal(t, token, lease.Token())
		inner, err := mu.Lock(lease.Enter(t.Context()))
		require.NoError(t, err)
		require.Equal(t, token, inner.Token())
		require.NoError(t, inner.Unlock())
		returned := locktest.LaterWith(t.Context(), other.Lock)
		require.NoError(t, lease.Unlock())
		next := locktest.MustHave(t, returned)
		require.Equal(t, token+1, next.Token())
		require.NoError(t, next.Unlock())
	}
	require.Equal(t, []any{counter}, server.MustDo(t, "KEYS", "*"))
	require.Equal(t, int64(-1), server.MustDo(t, "PTTL", counter))
}

// P3, P4: an acquire whose reply was lost has used a number up, and leaves nothing else.
func TestAFencedLockWhoseReplyWasLostIsUndone(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	lease := locksWithoutReply(t, proxy, fenced(t, proxy, signalbox.WithRenewedLease(longest)))
	require.GreaterOrEqual(t, lease.Token(), uint64(2))
	require.NoError(t, lease.Unlock())
	redistest.Await(t, "nothing but the counter is left", func() bool { return server.MustDo(t, "DBSIZE") == int64(1) })
}

// P3: so do they inside the process, first in, first out.
func TestAFencedLockHasANumberForEachHoldInsideTheProcess(t *testing.T) {
	t.Parallel()
	mu := fenced(t, redistest.Start(t))
	lease := locktest.Must(t, mu.Lock)
	one, two := locktest.Queue(t.Context(), t, mu.Lock), locktest.Queue(t.Context(), t, mu.Lock)
	for _, waiting := range []<-chan locktest.Result[signalbox.Lease]{one, two} {
		require.NoError(t, lease.Unlock())
		next := locktest.MustHave(t, waiting)
		require.Greater(t, next.Token(), lease.Token())
		lease = next
	}
	require.NoError(t, lease.Unlock())
}

// P10: a counter that is no number is the error of every acquire.
func TestACounterThatIsNoNumberIsAnError(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.MustDo(t, "SET", counter, "no number")
	_, err := fenced(t, server).Lock(t.Context())
	require.ErrorContains(t, err, "not an integer")
	require.ErrorIs(t, err, signalbox.ErrWrongKind)
	require.Equal(t, int64(0), server.MustDo(t, "EXISTS", "a"))
}

// P9: only a reentrant lock is fenced, and only a name whose keys share a slot.
func TestOnlyAReentrantLockIsFenced(t *testing.T) {
	t.Parallel()
	s := locktest.SteadySession(t, redistest.Start(t), signalbox.WithDefaults(signalbox.WithLayout(redisson.Layout(redisson.Fenced))))
	require.NoError(t, reentrant.New(s, "a").Check())
	err := fair.New(s, "a").Check()
	require.ErrorIs(t, err, signalbox.ErrBadOption)
	require.ErrorContains(t, err, "RFencedLock")
}

// P3: numbers rise when holds end otherwise.
func TestAFencedLockThatIsLostLeavesASmallerNumber(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu, other := fenced(t, server), fenced(t, server)
	lost := locktest.Must(t, mu.Lock)
	server.MustDo(t, "DEL", "a")
	forced := locktest.Must(t, other.Lock)
	require.Equal(t, lost.Token()+1, forced.Token())
	require.NoError(t, mu.ForceUnlock(t.Context()))
	next := locktest.Must(t, other.Lock)
	require.Equal(t, forced.Token()+1, next.Token())
	require.NoError(t, next.Unlock())
}
