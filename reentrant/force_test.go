// SPDX-License-Identifier: Apache-2.0

package reentrant_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/scripts"
)

// forcer is a lock whose requests go through a proxy, which does something between the question who
// holds it and the order to take it.
func forcer(t *testing.T, server *redistest.Server, between func(order int)) *reentrant.Lock {
	t.Helper()
	redistest.LoadScripts(t, server)
	proxy := redistest.NewProxy(t, server.Addr())
	proxy.SetMatch(func(req []string) bool { return len(req) > 1 && req[1] == scripts.LockForce.SHA1 })
	proxy.OnRequest(func(order int, _ []string) { between(order) })
	return reentrant.New(locktest.SteadySession(t, proxy), "a")
}

// put makes another holder hold the lock, for an hour.
func put(t *testing.T, server *redistest.Server, hold int) {
	t.Helper()
	server.MustDo(t, "SET", locktest.Key("a"), fmt.Sprintf("sb1l1795246514376753%s%019dr-", strings.Repeat("x", 22), hold), "PX", 3_600_000)
}

// P5, P8: no hold is taken that was not found before.
func TestALockThatChangesHandsIsForcedFromItsNewHolder(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	orders := 0
	mu := forcer(t, server, func(order int) {
		if orders = order; order <= 3 {
			put(t, server, order)
		}
	})
	put(t, server, 0)
	require.NoError(t, mu.ForceUnlock(t.Context()))
	require.Equal(t, 4, orders)
	requireFree(t, mu)
}

func TestALockThatChangesHandsAllTheTimeIsHeld(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	orders := 0
	mu := forcer(t, server, func(order int) {
		orders = order
		put(t, server, order)
	})
	put(t, server, 0)
	require.ErrorIs(t, mu.ForceUnlock(t.Context()), signalbox.ErrHeld)
	require.Equal(t, 10, orders)
	require.True(t, isHeld(t, server, "a"))
}

func TestALockThatIsReleasedMeanwhileIsNotHeld(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := forcer(t, server, func(int) { server.MustDo(t, "DEL", locktest.Key("a")) })
	put(t, server, 0)
	require.ErrorIs(t, mu.ForceUnlock(t.Context()), signalbox.ErrNotHeld)
}
