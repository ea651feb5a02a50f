// SPDX-License-Identifier: Apache-2.0

package fair_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/redisson"
)

func TestWaitersAreListedInOrder(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := fair.New(locktest.SteadySession(t, server), "a")
	for range mu.Waiters(t.Context()) {
		t.Error("there is no waiter")
	}
	lease := locktest.Must(t, mu.Lock)
	one, other := locktest.SteadySession(t, server, signalbox.WithLabel("one")), locktest.SteadySession(t, server, signalbox.WithLabel("the other"))
	ctx, cancel := context.WithCancel(t.Context())
	before := locktest.ServerTime(t, server)
	var waiting []<-chan locktest.Result[signalbox.Lease]
	for n := range 5 {
		waiting = append(waiting, locktest.Enqueue(ctx, t, server, "a", fair.New([]*signalbox.Session{one, other}[n%2], "a").Lock))
	}
	n := 0
	var sessions []string
	for w, err := range mu.Waiters(t.Context()) {
		require.NoError(t, err)
		require.Equal(t, n+1, w.Position)
		require.Equal(t, []string{"one", "the other"}[n%2], w.Label)
		require.True(t, w.Alive)
		require.WithinRange(t, w.Since, before, locktest.ServerTime(t, server))
		before = w.Since
		sessions = append(sessions, w.Session)
		n++
	}
	require.Equal(t, 5, n)
	require.Equal(t, sessions[0], sessions[2])
	require.NotEqual(t, sessions[0], sessions[1])
	cancel()
	for _, w := range waiting {
		require.ErrorIs(t, redistest.Receive(t, "the end of a wait", w).Err, context.Canceled)
	}
	require.NoError(t, lease.Unlock())
}

func TestALongQueueIsListedInPages(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := fair.New(locktest.SteadySession(t, server, signalbox.WithPolling()), "a")
	require.NoError(t, locktest.Must(t, mu.Lock).Unlock()) // teaches the server the scripts
	for range mu.Waiters(t.Context()) {
		t.Error("there is no waiter")
	}
	for _, n := range []int{99, 100, 101, 250} {
		server.MustDo(t, "EVAL", `redis.call('DEL', KEYS[1])
for i = 1, ARGV[1] do redis.call('ZADD', KEYS[1], 1780000000000000 + i, string.format('%022d%019df', i, i)) end`, 1, "sb:{a}:queue", n)
		listed := 0
		sent := server.SentBy(func() {
			for w, err := range mu.Waiters(t.Context()) {
				require.NoError(t, err)
				listed++
				require.Equal(t, listed, w.Position)
				require.Equal(t, time.UnixMicro(1780000000000000+int64(listed)), w.Since)
				require.False(t, w.Alive)
			}
		})
		require.Equal(t, n, listed)
		require.Equal(t, int64(n/100+1), sent["evalsha"])
		for range mu.Waiters(t.Context()) {
			break // it is not asked for the rest
		}
	}
	server.MustDo(t, "DEL", "sb:{a}:queue")
}

// Tickets of another kind are passed over, however many of them are in a page.
func TestTicketsOfAnotherKindEndNoPage(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.MustDo(t, "EVAL", `for i = 1, 250 do
local ticket = string.format('%022d%019d', i, i)
if i % 125 == 0 then ticket = ticket .. 'f' end
redis.call('ZADD', KEYS[1], 1780000000000000 + i, ticket) end`, 1, "sb:{a}:queue")
	var arrivals []int64
	for w, err := range fair.New(locktest.SteadySession(t, server), "a").Waiters(t.Context()) {
		require.NoError(t, err)
		arrivals = append(arrivals, w.Since.UnixMicro()-1780000000000000)
	}
	require.Equal(t, []int64{125, 250}, arrivals)
}

func TestAnErrorEndsTheWaiters(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.MustDo(t, "SET", "sb:{a}:queue", "x")
	n := 0
	for w, err := range fair.New(locktest.SteadySession(t, server), "a").Waiters(t.Context()) {
		require.ErrorIs(t, err, signalbox.ErrWrongKind)
		require.ErrorContains(t, err, `waiters "a"`)
		require.Equal(t, signalbox.Waiter{}, w)
		n++
	}
	require.Equal(t, 1, n)
}

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
