// SPDX-License-Identifier: Apache-2.0

package reentrant_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// serverTicks answers the server's time in the unit of tokens.
func serverTicks(t *testing.T, server *redistest.Server) uint64 {
	t.Helper()
	parts, _ := server.MustDo(t, "TIME").([]any)
	require.Len(t, parts, 2)
	return ticks(time.Unix(integer(t, parts[0]), 1000*integer(t, parts[1])))
}

// ticks answers a time in the unit of tokens.
func ticks(at time.Time) uint64 {
	return 4 * uint64(at.Sub(time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)).Microseconds())
}

// P3: a token is the server's time, in quarters of a microsecond since 2025-01-01.
func TestATokenIsTheServersTime(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := reentrant.New(newSession(t, server), "a")
	before := serverTicks(t, server)
	lease := mustLock(t, mu)
	require.GreaterOrEqual(t, lease.Token(), before)
	require.LessOrEqual(t, lease.Token(), serverTicks(t, server))
	require.Less(t, lease.Token(), uint64(1)<<53)
	require.NoError(t, lease.Unlock())
}

// P3: from holder to holder, in one session and across sessions.
func TestTokensRiseFromHolderToHolder(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	one, other := reentrant.New(newSession(t, server), "a"), reentrant.New(newSession(t, server), "a")
	var last uint64
	for i := range 50 {
		mu := one
		if i%3 == 0 {
			mu = other
		}
		lease := mustLock(t, mu)
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
	mu := reentrant.New(newSession(t, server), "a")
	lease := mustLock(t, mu)
	require.NoError(t, lease.Unlock())
	life := integer(t, server.MustDo(t, "PTTL", holderKey("a")))
	require.Greater(t, life, int64(40_000))
	require.LessOrEqual(t, life, int64(60_000))

	// The key of a lock that idled for a minute is gone.
	server.MustDo(t, "DEL", holderKey("a"))
	next := mustLock(t, mu)
	require.Greater(t, next.Token(), lease.Token())
	require.NoError(t, next.Unlock())
}

// P3: a floor that is ahead of the server's clock counts more than the clock.
func TestTokensRiseWhereTheServersClockIsBehind(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := reentrant.New(newSession(t, server), "a")
	later := time.Date(2090, 1, 1, 0, 0, 0, 0, time.UTC)
	server.MustDo(t, "SET", holderKey("a"), fmt.Sprintf("sb1-%016d", later.UnixMicro()), "PX", 60_000)
	last := ticks(later)
	for range 3 {
		lease := mustLock(t, mu)
		require.Greater(t, lease.Token(), last)
		require.Less(t, lease.Token(), last+10_000)
		last = lease.Token()
		require.NoError(t, lease.Unlock())
	}
}

// P3: also after a hold that nobody gave back.
func TestTokensRiseAfterExpiry(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := reentrant.New(newSession(t, server), "a", signalbox.FixedLease(shortest))
	lost := mustLock(t, mu)
	next := mustLock(t, reentrant.New(newSession(t, server), "a"))
	require.Greater(t, next.Token(), lost.Token())
	require.ErrorIs(t, lost.Err(), signalbox.ErrLost)
	require.NoError(t, next.Unlock())
}

// P3: tokens that are reserved for passing run at most 100 ms ahead of the clock, however
// often the lock is taken.
func TestReservedTokensStayNearTheClock(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := reentrant.New(newSession(t, server), "a")
	for range 500 {
		require.NoError(t, mustLock(t, mu).Unlock())
	}
	lease := mustLock(t, mu)
	require.LessOrEqual(t, lease.Token(), serverTicks(t, server)+400_000)
	require.NoError(t, lease.Unlock())
	floor := integer(t, holderValue(t, server, "a")[4:])
	require.LessOrEqual(t, ticks(time.UnixMicro(floor)), serverTicks(t, server)+400_000)
}
