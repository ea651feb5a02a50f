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

// awaitEmpty waits until the server has no key.
func awaitEmpty(tb testing.TB, server *redistest.Server) {
	tb.Helper()
	redistest.Await(tb, "nothing is left", func() bool { return server.MustDo(tb, "DBSIZE") == int64(0) })
}

// P1, P3, P6: first in, first out, over sessions and inside of one, by messages; nothing is left.
func TestASharedFairLockIsGivenInTheOrderOfAsking(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a, b := shared(t, server), shared(t, server)
	lease := locktest.Must(t, a.Lock)
	var waiting []<-chan locktest.Result[signalbox.Lease]
	for n, mu := range []*fair.Lock{a, b, b, a, b} {
		waiting = append(waiting, queueWaiter(t.Context(), t, server, mu, n+1))
	}
	require.Equal(t, int64(3), server.MustDo(t, "EXISTS", "a", javaQueue, javaDeadlines))
	require.Equal(t, int64(3), server.MustDo(t, "DBSIZE"), "no key beside Redisson's")
	last := lease.Token()
	for i, turn := range waiting {
		require.NoError(t, lease.Unlock())
		lease = locktest.MustHave(t, turn)
		require.Greater(t, lease.Token(), last)
		last = lease.Token()
		for _, later := range waiting[i+1:] {
			require.False(t, locktest.IsClosed(later), "out of order")
		}
	}
	require.NoError(t, lease.Unlock())
	awaitEmpty(t, server)
}

// P4, P6: a waiter that gives up leaves the queue. If it is granted the lock in that instant, the lock goes
// to the next waiter.
func TestAWaiterThatGivesUpLeavesTheSharedQueue(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu, other := shared(t, server), shared(t, server)
	lease := locktest.Must(t, mu.Lock)
	ctx, giveUp := context.WithCancel(t.Context())
	first := queueWaiter(ctx, t, server, other, 1)
	second := queueWaiter(t.Context(), t, server, mu, 2)
	giveUp()
	got := redistest.Receive(t, "the end of waiting", first)
	require.ErrorIs(t, got.Err, signalbox.ErrHeld)
	require.ErrorIs(t, got.Err, context.Canceled)
	redistest.Await(t, "the end of the ticket", func() bool { return locktest.Integer(t, server.MustDo(t, "LLEN", javaQueue)) == 1 })
	require.Equal(t, int64(1), server.MustDo(t, "ZCARD", javaDeadlines))
	require.NoError(t, lease.Unlock())
	require.NoError(t, locktest.MustHave(t, second).Unlock())
	awaitEmpty(t, server)
}

// P6: a session that polls waits, too.
func TestASharedFairLockIsWaitedForByPolling(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	lease := locktest.Must(t, shared(t, server).Lock)
	waiting := locktest.LaterWith(t.Context(), fair.New(locktest.SteadySession(t, server, signalbox.WithPolling()), "a", signalbox.WithLayout(redisson.Layout())).Lock)
	redistest.Await(t, "a ticket in the queue", func() bool { return locktest.Integer(t, server.MustDo(t, "LLEN", javaQueue)) == 1 })
	require.NoError(t, lease.Unlock())
	require.NoError(t, locktest.MustHave(t, waiting).Unlock())
}

// P1: TryLock overtakes no waiter, and does not queue.
func TestATryOvertakesNoWaiterInTheSharedQueue(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu, other := shared(t, server), shared(t, server)
	lease, err := mu.TryLock(t.Context())
	require.NoError(t, err)
	_, err = other.TryLock(t.Context())
	require.ErrorIs(t, err, signalbox.ErrHeld)
	require.Equal(t, int64(0), server.MustDo(t, "EXISTS", javaQueue, javaDeadlines))
	server.MustDo(t, "RPUSH", javaQueue, "somebody:1")
	server.MustDo(t, "ZADD", javaDeadlines, "9999999999999", "somebody:1")
	require.NoError(t, lease.Unlock())
	_, err = other.TryLock(t.Context())
	require.ErrorIs(t, err, signalbox.ErrHeld)
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

// P4, P7: Close leaves nothing, of holds and of waiters.
func TestNothingIsLeftOfASharedFairLockAfterClose(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := locktest.SteadySession(t, server)
	mu := fair.New(s, "a", signalbox.WithLayout(redisson.Layout()))
	lease := locktest.Must(t, mu.Lock)
	waiting := queueWaiter(t.Context(), t, server, mu, 1)
	require.Error(t, s.Close(locktest.Ended()))
	require.ErrorIs(t, redistest.Receive(t, "the end of waiting", waiting).Err, signalbox.ErrClosed)
	require.ErrorIs(t, lease.Err(), signalbox.ErrLost)
	awaitEmpty(t, server)
}

// P7: a try that comes to nothing is one script.
func TestASharedTryThatFailsIsOneScript(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	s := locktest.SteadySession(t, proxy, signalbox.WithPolling())
	mu := fair.New(s, "a", signalbox.WithLayout(redisson.Layout()))
	require.NoError(t, locktest.Must(t, mu.Lock).Unlock()) // teaches the server the scripts
	lease := locktest.Must(t, shared(t, server).Lock)
	proxy.ResetCount()
	for range 10 {
		_, err := mu.TryLock(t.Context())
		require.ErrorIs(t, err, signalbox.ErrHeld)
	}
	redistest.Await(t, "nothing left to release", func() bool { return locktest.Undoing(s) == 0 })
	require.Equal(t, 10, proxy.Requests())
	require.NoError(t, lease.Unlock())
}
