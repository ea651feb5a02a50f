// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/inspect"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/semaphore"
)

// javaTakes acquires permits as the Java client does: the ids are random, and the number is less by as many.
const javaTakes = `
for i = 1, ARGV[1] do
  redis.call('ZADD', KEYS[2], ARGV[2], string.format('java%012d', i))
end
redis.call('SETNX', KEYS[1], ARGV[3])
redis.call('DECRBY', KEYS[1], ARGV[1])`

const never = "922337203685477" // the end of a permit without one

// P2: Break ends permits of Java and of Go, hands them to the waiters, and notifies holders by message: their leases
// are not renewed, and end in an hour.
func TestBreakEndsPermitsInRedissonsLayout(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	java := signalbox.WithDefaults(signalbox.WithLayout(redisson.Layout()), signalbox.WithFixedLease(time.Hour))
	s, operator := locktest.SteadySession(t, server, java), locktest.SteadySession(t, server, java)
	server.MustDo(t, "EVAL", javaTakes, 2, "x", "{x}:timeout", 2, never, 5)
	held, err := semaphore.New(s, "x", 5).Acquire(locktest.Context(t), 2)
	require.NoError(t, err)
	own, err := semaphore.New(operator, "x", 5).Acquire(locktest.Context(t), 1)
	require.NoError(t, err)
	next := locktest.LaterWith(locktest.Context(t), func(ctx context.Context) (signalbox.Lease, error) {
		return semaphore.New(operator, "x", 5).Acquire(ctx, 4)
	})
	redistest.Await(t, "a waiter", func() bool { return locktest.Listeners(t, server, "redisson_sc:{x}") == 1 })
	redistest.Await(t, "a session that listens", func() bool { return locktest.Channels(s) == 2 })
	require.NoError(t, inspect.Break(locktest.Context(t), operator, "x"))
	redistest.Receive(t, "the loss", held.Done())
	require.ErrorIs(t, held.Err(), signalbox.ErrLost)
	require.ErrorIs(t, held.Unlock(), signalbox.ErrLost)
	redistest.Receive(t, "the operator's own loss", own.Done())
	unlocked(t, next)
	require.Equal(t, "5", server.MustDo(t, "GET", "x"))
	require.Zero(t, server.MustDo(t, "EXISTS", "{x}:timeout"))
	require.ErrorIs(t, inspect.Break(locktest.Context(t), operator, "x"), signalbox.ErrWrongKind, "a number may be anything")
}

// P2: a session that listens already when it makes its first semaphore is notified too.
func TestSessionThatListensHearsOfBrokenPermits(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	java := signalbox.WithDefaults(signalbox.WithLayout(redisson.Layout()), signalbox.WithFixedLease(time.Hour))
	s, operator := locktest.SteadySession(t, server, java), locktest.SteadySession(t, server, java)
	lock := locktest.Must(t, reentrant.New(s, "lock").Lock)
	redistest.Await(t, "a session that listens", func() bool { return locktest.Channels(s) == 1 })
	held, err := semaphore.New(s, "x", 1).Acquire(locktest.Context(t), 1)
	require.NoError(t, err)
	require.NoError(t, inspect.Break(locktest.Context(t), operator, "x"))
	redistest.Receive(t, "the loss", held.Done())
	require.ErrorIs(t, held.Err(), signalbox.ErrLost)
	require.NoError(t, lock.Unlock())
}

// P1: permits are ended in pages. Those that ended by themselves are left to the next acquire, and are free once.
func TestBreakEndsThousandsOfPermitsInPages(t *testing.T) {
	t.Parallel()
	const n, ended = 2300, 70
	server := redistest.Start(t)
	s := locktest.SteadySession(t, server, signalbox.WithDefaults(signalbox.WithLayout(redisson.Layout())))
	server.MustDo(t, "EVAL", javaTakes, 2, "x", "{x}:timeout", n, never, n+ended)
	for i := range ended {
		server.MustDo(t, "ZADD", "{x}:timeout", 1000, fmt.Sprintf("ended%011d", i))
	}
	server.MustDo(t, "DECRBY", "x", ended)
	require.Equal(t, "0", server.MustDo(t, "GET", "x"))
	sent := server.SentBy(func() { require.NoError(t, inspect.Break(locktest.Context(t), s, "x")) })
	require.LessOrEqual(t, sent["zrem"], int64(5))
	require.LessOrEqual(t, sent["zrange"], int64(8))
	require.Equal(t, "2300", server.MustDo(t, "GET", "x"))
	permits, err := semaphore.New(s, "x", n+ended).Acquire(locktest.Context(t), 1)
	require.NoError(t, err)
	require.NoError(t, permits.Unlock())
	require.Equal(t, "2370", server.MustDo(t, "GET", "x"))
	require.Zero(t, server.MustDo(t, "EXISTS", "{x}:timeout"))
}

// The permits of an RSemaphore have no ids: Break refuses, and changes nothing. Nor does it change a key of another
// program that has the name of the one beside the number.
func TestBreakRefusesPermitsWithoutIDs(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := locktest.SteadySession(t, server, signalbox.WithDefaults(signalbox.WithLayout(redisson.Layout())))
	permits, err := semaphore.New(s, "plain", 5, semaphore.Plain()).Acquire(locktest.Context(t), 2)
	require.NoError(t, err)
	err = inspect.Break(locktest.Context(t), s, "plain")
	require.ErrorIs(t, err, signalbox.ErrBadOption)
	require.ErrorContains(t, err, `break "plain"`)
	require.ErrorContains(t, err, "plain semaphore")
	require.NoError(t, permits.Err())
	require.NoError(t, permits.Unlock())
	require.Equal(t, "5", server.MustDo(t, "GET", "plain"))

	server.MustDo(t, "SET", "other", "5")
	server.MustDo(t, "ZADD", "{other}:timeout", never, "a member of its own")
	require.ErrorIs(t, inspect.Break(locktest.Context(t), s, "other"), signalbox.ErrWrongKind)
	require.Equal(t, "5", server.MustDo(t, "GET", "other"))
	require.Equal(t, int64(1), server.MustDo(t, "ZCARD", "{other}:timeout"))

	// It does not end those whose ids it knows either, though they are in an earlier page.
	server.MustDo(t, "EVAL", javaTakes, 2, "mixed", "{mixed}:timeout", 600, never, 600)
	server.MustDo(t, "ZADD", "{mixed}:timeout", never, "x: behind them")
	require.ErrorIs(t, inspect.Break(locktest.Context(t), s, "mixed"), signalbox.ErrWrongKind)
	require.Equal(t, "0", server.MustDo(t, "GET", "mixed"))
	require.Equal(t, int64(601), server.MustDo(t, "ZCARD", "{mixed}:timeout"))

	fenced := locktest.SteadySession(t, server, signalbox.WithDefaults(signalbox.WithLayout(redisson.Layout(redisson.Fenced))))
	server.MustDo(t, "EVAL", javaTakes, 2, "x", "{x}:timeout", 1, never, 5)
	require.ErrorIs(t, inspect.Break(locktest.Context(t), fenced, "x"), signalbox.ErrBadOption)
}

// P2: in a cluster the message reaches the holder's session at whatever node it listens.
func TestBreakEndsPermitsInACluster(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "the nodes of a cluster serve two seconds after their start")
	cluster := redistest.StartCluster(t, redistest.WithFailoverAfter(time.Minute))
	java := signalbox.WithDefaults(signalbox.WithLayout(redisson.Layout()), signalbox.WithFixedLease(time.Hour))
	s, operator := locktest.Session(t, cluster, java), locktest.Session(t, cluster, java)
	for i := range 6 {
		name := fmt.Sprintf("n/%d", i)
		held, err := semaphore.New(s, name, 2).Acquire(locktest.Context(t), 2)
		require.NoError(t, err)
		redistest.Await(t, "a session that listens", func() bool { return locktest.Channels(s) == 2 })
		require.NoError(t, inspect.Break(locktest.Context(t), operator, name))
		redistest.Receive(t, "the loss", held.Done())
		require.ErrorIs(t, held.Unlock(), signalbox.ErrLost)
		free, err := semaphore.New(operator, name, 2).Available(locktest.Context(t))
		require.NoError(t, err)
		require.Equal(t, 2, free)
	}
}
