// SPDX-License-Identifier: Apache-2.0

package reentrant_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/reentrant"
)

// A call without the lease's context says that its own session has the lock, and how the holder enters it again.
func TestALockThatTheSessionHoldsIsSaidToBe(t *testing.T) {
	t.Parallel()
	s := locktest.SteadySession(t, redistest.Start(t))
	mu := reentrant.New(s, "a")
	lease := locktest.Must(t, mu.Lock)
	_, err := mu.TryLock(t.Context())
	require.ErrorIs(t, err, signalbox.ErrHeld)
	require.ErrorContains(t, err, "by this session; its holder enters it again by the context of Lease.Enter")
	require.NoError(t, lease.Unlock())
}

// The lock in the layout of Redisson, as far as Go alone can test it. test/interop has the Java client on
// the other side.

// Redisson keeps no queue for its RLock and its RFencedLock: a call that would list it says so, and sends nothing.
func TestWaitersOfASharedLockAreABadOption(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := locktest.SteadySession(t, server)
	for name, mu := range map[string]*reentrant.Lock{
		"RLock":       reentrant.New(s, "a", signalbox.WithLayout(redisson.Layout())),
		"RFencedLock": reentrant.New(s, "a", signalbox.WithLayout(redisson.Layout(redisson.Fenced))),
	} {
		n := 0
		for w, err := range mu.Waiters(t.Context()) {
			require.ErrorIs(t, err, signalbox.ErrBadOption, name)
			require.ErrorContains(t, err, "has no queue at the server", name)
			require.Zero(t, w, name)
			n++
		}
		require.Equal(t, 1, n, name)
	}
}

// forcer is a lock whose requests go through a proxy, which does something between the question who
// holds it and the order to take it.
func forcer(t *testing.T, server *redistest.Server, between func(order int)) *reentrant.Lock {
	t.Helper()
	redistest.LoadScripts(t, server)
	proxy := redistest.NewProxy(t, server.Addr())
	proxy.SetMatch(func(req []string) bool { return len(req) > 1 && req[1] == proto.LockForceScript.SHA1 })
	proxy.OnRequest(func(order int, _ []string) { between(order) })
	return reentrant.New(locktest.SteadySession(t, proxy), "a")
}

// put makes another holder hold the lock, for an hour.
func put(t *testing.T, server *redistest.Server, hold int) {
	t.Helper()
	server.MustDo(t, "SET", locktest.Key("a"), fmt.Sprintf("sb1l1795246514376753%s%019dr-", strings.Repeat("x", 22), hold), "PX", 3_600_000)
}

// P5, P8: no hold is taken that was not found before. One that is found instead is, unless the lock changes hands all the time.
func TestALockThatChangesHandsIsForcedFromItsNewHolder(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		changes int // how often the lock changes hands; -1 releases it
		orders  int
		want    error
	}{
		"Three times":  {3, 4, nil},
		"All the time": {100, 10, signalbox.ErrHeld},
		"Released":     {-1, 1, signalbox.ErrNotHeld},
	} {
		server := redistest.Start(t)
		orders := 0
		mu := forcer(t, server, func(order int) {
			orders = order
			if c.changes < 0 {
				server.MustDo(t, "DEL", locktest.Key("a"))
			} else if order <= c.changes {
				put(t, server, order)
			}
		})
		put(t, server, 0)
		require.ErrorIs(t, mu.ForceUnlock(t.Context()), c.want, name)
		require.Equal(t, c.orders, orders, name)
		require.Equal(t, c.changes > orders, isHeld(t, server, "a"), name)
	}
}

func TestHolderReportsAKeyWithoutAnEnd(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := reentrant.New(locktest.SteadySession(t, server), "a", signalbox.WithRenewedLease(24*time.Hour)) // a renewal would give it one
	lease := locktest.Must(t, mu.Lock)
	server.MustDo(t, "PERSIST", locktest.Key("a"))
	h, err := mu.Holder(t.Context())
	require.NoError(t, err)
	require.True(t, h.Until.IsZero())
	require.NoError(t, lease.Unlock())
}

// isHeld reports whether the server says that the lock is held.
func isHeld(tb testing.TB, server *redistest.Server, name string) bool {
	tb.Helper()
	value, _ := server.MustDo(tb, "GET", locktest.Key(name)).(string)
	return locktest.IsHeld(value)
}
