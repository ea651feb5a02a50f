// SPDX-License-Identifier: Apache-2.0

package reentrant_test

import (
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
