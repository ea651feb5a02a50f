// SPDX-License-Identifier: Apache-2.0

package semaphore_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/semaphore"
)

// The keys of the semaphore "a".
const permitsKey, queueKey = "sb:{a}:permits", "sb:{a}:permits:queue"

// pendingAcquire is what a call of Acquire on another goroutine returns.
type pendingAcquire = <-chan locktest.Result[signalbox.Lease]

// newSession returns a session of its own, as another process would have it. Its wires are good, so it tolerates a server
// that is silent on a busy machine.
func newSession(tb testing.TB, at redistest.Dialer, options ...signalbox.SessionOption) *signalbox.Session {
	tb.Helper()
	return locktest.SessionOf(tb, at.Client(tb, locktest.Steady), options...)
}

// acquireFunc returns Acquire of n permits, for locktest.
func acquireFunc(sem *semaphore.Semaphore, n int) func(ctx context.Context) (signalbox.Lease, error) {
	return func(ctx context.Context) (signalbox.Lease, error) { return sem.Acquire(ctx, n) }
}

// mustAcquire acquires permits that are free, or will be soon.
func mustAcquire(tb testing.TB, sem *semaphore.Semaphore, n int) signalbox.Lease {
	tb.Helper()
	return locktest.Must(tb, acquireFunc(sem, n))
}

// queue acquires on another goroutine, and returns when that is the at-th in the queue of the server.
func queue(ctx context.Context, tb testing.TB, server *redistest.Server, sem *semaphore.Semaphore, n, at int) pendingAcquire {
	tb.Helper()
	waiting := locktest.LaterWith(ctx, acquireFunc(sem, n))
	redistest.Await(tb, "a ticket", func() bool { return tickets(tb, server) == at })
	return waiting
}

// queueFirst acquires on another goroutine, and returns when that is the first in the queue of the server, and all
// of its session queue behind it.
func queueFirst(ctx context.Context, tb testing.TB, server *redistest.Server, sem *semaphore.Semaphore) pendingAcquire {
	tb.Helper()
	redistest.Await(tb, "an empty queue", func() bool { return tickets(tb, server) == 0 })
	waiting := queue(ctx, tb, server, sem, 1, 1)
	redistest.Await(tb, "that it knows of its ticket", sem.Waits)
	return waiting
}

// heldPermits returns the sum of all permits that are held on the server, which counts them itself.
func heldPermits(tb testing.TB, server *redistest.Server) int {
	tb.Helper()
	return locktest.Count(tb, server, "EVAL", `
local time, used = redis.call('TIME'), 0
local now = time[1] .. string.sub('00000' .. time[2], -6)
for _, name in ipairs(redis.call('ZRANGE', KEYS[1], '(' .. now, '+inf', 'BYSCORE')) do
  used = used + tonumber(string.sub(name, 42, 51))
end
return used`, 1, permitsKey)
}

// tickets returns how many tickets there are on the server.
func tickets(tb testing.TB, server *redistest.Server) int {
	tb.Helper()
	return locktest.Count(tb, server, "ZCARD", queueKey)
}

// available returns how many permits are free.
func available(tb testing.TB, sem *semaphore.Semaphore) int {
	tb.Helper()
	n, err := sem.Available(tb.Context())
	require.NoError(tb, err)
	return n
}
