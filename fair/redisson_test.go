// SPDX-License-Identifier: Apache-2.0

package fair_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/redisson"
)

// The lock in the layout of Redisson, as far as Go alone can test it. test/interop has the Java client on
// the other side.

// The keys of the lock "a".
const javaQueue, javaDeadlines = "redisson_lock_queue:{a}", "redisson_lock_timeout:{a}"

// shared returns the lock "a" of a session of its own.
func shared(tb testing.TB, at redistest.Dialer, options ...signalbox.LockOption) *fair.Lock {
	tb.Helper()
	return fair.New(locktest.SteadySession(tb, at), "a", append(options, signalbox.WithLayout(redisson.Layout()))...)
}

// queueWaiter locks on another goroutine, and returns when that goroutine is the n-th waiter in the queue, and
// listens.
func queueWaiter(ctx context.Context, tb testing.TB, server *redistest.Server, mu *fair.Lock, n int) <-chan locktest.Result[signalbox.Lease] {
	tb.Helper()
	result := locktest.LaterWith(ctx, mu.Lock)
	redistest.Await(tb, "a ticket in the queue", func() bool { return locktest.Integer(tb, server.MustDo(tb, "LLEN", javaQueue)) == int64(n) })
	owner, _ := server.MustDo(tb, "LINDEX", javaQueue, -1).(string)
	redistest.Await(tb, "a waiter listens", func() bool {
		reply, _ := server.MustDo(tb, "PUBSUB", "NUMSUB", "redisson_lock__channel:{a}:"+owner).([]any)
		return locktest.Integer(tb, reply[1]) == 1
	})
	return result
}

// Waiters lists the queue over pages, with the waiters of every process.
func TestWaitersOfASharedFairLock(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := shared(t, server)
	lease := locktest.Must(t, mu.Lock)
	defer func() { require.NoError(t, lease.Unlock()) }()
	const others = 150
	for n := range others {
		owner := fmt.Sprintf("00010203-0405-0607-0809-0a0b0c0d0e0f:%d", n)
		server.MustDo(t, "RPUSH", javaQueue, owner)
		server.MustDo(t, "ZADD", javaDeadlines, "9999999999999", owner)
	}
	ctx, giveUp := context.WithCancel(t.Context())
	waiting := queueWaiter(ctx, t, server, mu, others+1)
	position := 0
	var last signalbox.Waiter
	for w, err := range mu.Waiters(t.Context()) {
		require.NoError(t, err)
		position++
		require.Equal(t, position, w.Position)
		require.True(t, w.Alive)
		require.Zero(t, w.Since)
		if position <= others {
			require.Equal(t, "AAECAwQFBgcICQoLDA0ODw", w.Session)
			require.Equal(t, fmt.Sprintf("00010203-0405-0607-0809-0a0b0c0d0e0f:%d", position-1), w.Label)
		}
		last = w
	}
	require.Equal(t, others+1, position)
	h, err := mu.Holder(t.Context())
	require.NoError(t, err)
	require.Equal(t, h.Session, last.Session)
	giveUp()
	require.ErrorIs(t, redistest.Receive(t, "the end of waiting", waiting).Err, context.Canceled)
}
