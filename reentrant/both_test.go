// SPDX-License-Identifier: Apache-2.0

package reentrant_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// A reentrant and a fair lock of one name are one lock.

// bothOrders is each of the two packages beside the other.
var bothOrders = [][2]locktest.Primitive{
	{locktest.Reentrant(), locktest.Fair()}, {locktest.Fair(), locktest.Reentrant()},
}

// P1, P2: if the key is lost, and another goroutine of the session is granted the lock anew, the older hold has ended by
// then, whichever package each of them uses.
func TestANewerGrantEndsTheOlderHoldOfItsSession(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := locktest.SteadySession(t, server)
	for _, kinds := range append(bothOrders[:2:2], [2]locktest.Primitive{locktest.Fair(), locktest.Fair()}) {
		older := locktest.Must(t, kinds[0].New(s, "a", signalbox.WithRenewedLease(longest)).Lock)
		bound := older.Bind(t.Context())
		server.MustDo(t, "DEL", locktest.Key("a"))
		newer := locktest.Must(t, kinds[1].New(s, "a").Lock)
		require.Error(t, bound.Err())
		require.ErrorIs(t, older.Err(), signalbox.ErrLost)
		require.Greater(t, newer.Token(), older.Token())
		require.ErrorIs(t, older.Unlock(), signalbox.ErrLost)
		require.NoError(t, newer.Err())
		require.True(t, isHeld(t, server, "a"))
		require.NoError(t, newer.Unlock())
	}
}
