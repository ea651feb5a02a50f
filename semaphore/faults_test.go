// SPDX-License-Identifier: Apache-2.0

package semaphore_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/semaphore"
)

// P10: when memory is full a release works and hands on, and a request is refused with the server's words.
func TestAReleaseWorksWhenMemoryIsFull(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server)
	sem := semaphore.New(s, "a", 2)
	lease := mustAcquire(t, sem, 2)
	waiting := queue(t.Context(), t, server, semaphore.New(newSession(t, server), "a", 2), 1, 1)
	server.MustDo(t, "CONFIG", "SET", "maxmemory", "1")
	_, err := semaphore.New(s, "b", 2).TryAcquire(t.Context(), 1)
	require.ErrorIs(t, err, signalbox.ErrRefused)
	require.ErrorContains(t, err, "OOM")
	require.NoError(t, lease.Unlock())
	require.NoError(t, locktest.MustHave(t, waiting).Unlock()) // at once: it cannot be renewed while memory is full
	server.MustDo(t, "CONFIG", "SET", "maxmemory", "0")
	require.NoError(t, mustAcquire(t, sem, 2).Unlock())
}

// P6: the permits of any number of crashed holders are free at once, also for a waiter for all of them.
func TestTwentyThousandPermitsThatEndAtOnceAreSoonServed(t *testing.T) {
	t.Parallel()
	const n = 20_000
	server := redistest.Start(t)
	endIn := func(seconds int) {
		server.MustDo(t, "EVAL", `
local ends = string.format('%.0f', (redis.call('TIME')[1] + ARGV[2]) * 1000000)
for i = 1, ARGV[1] do
  redis.call('ZADD', KEYS[1], ends, string.format('%041d', i) .. '0000000001')
end
redis.call('ZADD', KEYS[1], -1, 'sb1s', ARGV[1], 'used', ARGV[1], 'capacity')
redis.call('PEXPIRE', KEYS[1], 600000)`, 1, permitsKey, n, seconds)
	}
	endIn(3600)
	sem := semaphore.New(newSession(t, server), "a", n)
	all := queue(t.Context(), t, server, sem, n, 1)
	endIn(0) // the second that has begun
	_, err := semaphore.New(newSession(t, server), "a", n).TryAcquire(t.Context(), 1)
	require.ErrorIs(t, err, signalbox.ErrHeld, "they are for who waits, who is served now rather than at its next poll")
	lease := locktest.MustHave(t, all)
	require.Equal(t, n, heldPermits(t, server))
	require.NoError(t, lease.Unlock())
	require.Equal(t, n, available(t, sem))
}
