// SPDX-License-Identifier: Apache-2.0

package reentrant_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// ticks returns a time in the unit of tokens.
func ticks(at time.Time) uint64 {
	return 4 * uint64(at.Sub(time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)).Microseconds())
}

// P3: a token is the server's time, in quarters of a microsecond since 2025-01-01.
func TestATokenIsTheServersTime(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := reentrant.New(locktest.SteadySession(t, server), "a")
	before := ticks(locktest.ServerTime(t, server))
	lease := locktest.Must(t, mu.Lock)
	require.GreaterOrEqual(t, lease.Token(), before)
	require.LessOrEqual(t, lease.Token(), ticks(locktest.ServerTime(t, server)))
	require.Less(t, lease.Token(), uint64(1)<<53)
	require.NoError(t, lease.Unlock())
}

// P3: from holder to holder, in one session and across sessions.
func TestTokensRiseFromHolderToHolder(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	one, other := reentrant.New(locktest.SteadySession(t, server), "a"), reentrant.New(locktest.SteadySession(t, server), "a")
	var last uint64
	for i := range 50 {
		mu := one
		if i%3 == 0 {
			mu = other
		}
		lease := locktest.Must(t, mu.Lock)
		require.Greater(t, lease.Token(), last)
		last = lease.Token()
		require.NoError(t, lease.Unlock())
	}
}

// P3: the floor of the tokens outlives the release, but not for ever, and its loss does no harm
// while the server's clock goes forward.
func TestTokensRiseAfterIdling(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := reentrant.New(locktest.SteadySession(t, server), "a")
	lease := locktest.Must(t, mu.Lock)
	require.NoError(t, lease.Unlock())
	life := locktest.Integer(t, server.MustDo(t, "PTTL", locktest.Key("a")))
	require.Greater(t, life, int64(40_000))
	require.LessOrEqual(t, life, int64(60_000))

	// The key of a lock that idled for a minute is gone.
	server.MustDo(t, "DEL", locktest.Key("a"))
	next := locktest.Must(t, mu.Lock)
	require.Greater(t, next.Token(), lease.Token())
	require.NoError(t, next.Unlock())
}

// P3: a floor that is ahead of the server's clock counts more than the clock.
func TestTokensRiseIfTheServersClockIsBehind(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := reentrant.New(locktest.SteadySession(t, server), "a")
	later := time.Date(2090, 1, 1, 0, 0, 0, 0, time.UTC)
	server.MustDo(t, "SET", locktest.Key("a"), fmt.Sprintf("sb1-%016d", later.UnixMicro()), "PX", 60_000)
	last := ticks(later)
	for range 3 {
		lease := locktest.Must(t, mu.Lock)
		require.Greater(t, lease.Token(), last)
		require.Less(t, lease.Token(), last+10_000)
		last = lease.Token()
		require.NoError(t, lease.Unlock())
	}
}
