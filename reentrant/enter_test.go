// SPDX-License-Identifier: Apache-2.0

package reentrant_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// P1: an entry counts as long as any other: if the outer lease is unlocked, the hold continues with the
// inner one, which can be entered.
func TestAnInnerLeaseCarriesOnAfterTheOuter(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := reentrant.New(locktest.SteadySession(t, server), "a")
	outer := locktest.Must(t, mu.Lock)
	inner, err := mu.Lock(outer.Enter(t.Context()))
	require.NoError(t, err)
	ctx := inner.Enter(context.WithoutCancel(outer.Enter(t.Context()))) // carries both
	require.NoError(t, outer.Unlock())
	innermost, err := mu.Lock(ctx)
	require.NoError(t, err)
	require.NoError(t, inner.Unlock())
	require.NoError(t, innermost.Err())
	require.True(t, isHeld(t, server, "a"))
	require.NoError(t, innermost.Unlock())
	require.False(t, isHeld(t, server, "a"))
}

// P1: no command, whatever happens inside, and as many entries as anybody wants.
func TestManyEntriesAreOneHold(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := reentrant.New(locktest.SteadySession(t, server, signalbox.WithPolling()), "a", signalbox.WithRenewedLease(longest))
	lease := locktest.Must(t, mu.Lock)
	ctx := lease.Enter(t.Context())
	entries := make([]signalbox.Lease, 100)
	require.Empty(t, server.SentBy(func() {
		for i := range entries {
			var err error
			entries[i], err = mu.Lock(ctx)
			require.NoError(t, err)
			ctx = entries[i].Enter(ctx)
		}
		require.NoError(t, lease.Unlock())
		for _, entry := range entries[:99] {
			require.NoError(t, entry.Unlock())
			require.ErrorIs(t, entry.Unlock(), signalbox.ErrNotHeld)
		}
	}))
	require.True(t, isHeld(t, server, "a"))
	require.NoError(t, entries[99].Unlock())
	require.False(t, isHeld(t, server, "a"))
}
