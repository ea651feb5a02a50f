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

// P9: only a reentrant lock is fenced, and only a name whose keys share a slot.
func TestOnlyAReentrantLockIsFenced(t *testing.T) {
	t.Parallel()
	s := locktest.SteadySession(t, redistest.Start(t), signalbox.WithDefaults(signalbox.WithLayout(redisson.Layout(redisson.Fenced))))
	require.NoError(t, reentrant.New(s, "a").Check())
	err := fair.New(s, "a").Check()
	require.ErrorIs(t, err, signalbox.ErrBadOption)
	require.ErrorContains(t, err, "RFencedLock")
}
