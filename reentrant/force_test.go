// SPDX-License-Identifier: Apache-2.0

package reentrant_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/names"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/scripts"
)

// keeps are the terms of holds that no renewal and no deadline ends before a test is over.
var keeps = map[string][]signalbox.LockOption{
	"Renewed": {signalbox.WithRenewedLease(longest)},
	"Fixed":   {signalbox.WithFixedLease(longest)},
	"MaxHold": {signalbox.WithRenewedLease(longest), signalbox.WithMaxHold(longest)},
}

// P2, P3: with leases like these only the message can report the loss.
func TestAForceUnlockNotifiesTheHolderByMessage(t *testing.T) {
	t.Parallel()
	for name, terms := range keeps {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			mu := reentrant.New(locktest.SteadySession(t, server), name, terms...)
			lease := locktest.Must(t, mu.Lock)
			inner, err := mu.Lock(lease.Enter(t.Context()))
			require.NoError(t, err)
			bound := lease.Bind(t.Context())
			awaitListening(t, server)
			require.NoError(t, lease.Err())

			other := reentrant.New(locktest.SteadySession(t, server), name)
			require.NoError(t, other.ForceUnlock(t.Context()))
			redistest.Receive(t, "the end of the lease", lease.Done())
			redistest.Receive(t, "the end of the inner lease", inner.Done())
			redistest.Receive(t, "the end of the context", bound.Done())
			require.ErrorIs(t, lease.Err(), signalbox.ErrLost)
			require.ErrorIs(t, inner.Err(), signalbox.ErrLost)
			require.ErrorIs(t, context.Cause(bound), signalbox.ErrLost)

			next := locktest.Must(t, other.Lock)
			require.Greater(t, next.Token(), lease.Token())
			require.ErrorIs(t, inner.Unlock(), signalbox.ErrLost)
			require.ErrorIs(t, lease.Unlock(), signalbox.ErrLost)
			require.NoError(t, next.Err())
			require.NoError(t, next.Unlock())
			requireFree(t, other)
			require.ErrorIs(t, other.ForceUnlock(t.Context()), signalbox.ErrNotHeld)
		})
	}
}

// P2: in another process, too.
func TestAnotherProcessIsNotifiedByMessage(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	process := redistest.Child(t, "holder", urlVariable+"="+server.URL())
	require.Regexp(t, `^\d+ <nil>$`, command(t, process, "keep"))
	awaitListening(t, server)
	mu := reentrant.New(locktest.SteadySession(t, server), "a")
	h := requireHolder(t, mu)
	require.Contains(t, h.Label, fmt.Sprintf(":%d", process.PID()))
	require.Equal(t, 1, locktest.Listeners(t, server, names.Session(names.DefaultPrefix, h.Session)))
	require.NoError(t, mu.ForceUnlock(t.Context()))
	require.Contains(t, command(t, process, "wait"), signalbox.ErrLost.Error())
	require.Contains(t, command(t, process, "unlock"), signalbox.ErrLost.Error())
}

// P2: the session listens a moment after the lock was taken. What was taken from it until then it
// asks for.
func TestAHoldThatIsForcedAtOnceIsLost(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	other := locktest.SteadySession(t, server)
	s := locktest.SteadySession(t, server)
	var leases []signalbox.Lease
	for i := range 20 {
		name := fmt.Sprint("a", i)
		leases = append(leases, locktest.Must(t, reentrant.New(s, name, signalbox.WithRenewedLease(longest)).Lock))
		require.NoError(t, reentrant.New(other, name).ForceUnlock(t.Context()))
	}
	for _, lease := range leases {
		redistest.Receive(t, "the end of the lease", lease.Done())
	}
}

// P2: a session that forces its own hold is notified in the same way, even if it has no subscription.
func TestASessionCanForceItsOwnHold(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for name, options := range map[string][]signalbox.SessionOption{"Listening": nil, "Polling": {signalbox.WithPolling()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mu := reentrant.New(locktest.SteadySession(t, server, options...), name, signalbox.WithRenewedLease(longest))
			lease := locktest.Must(t, mu.Lock)
			waiting := locktest.Queue(t.Context(), t, mu.Lock)
			require.NoError(t, mu.ForceUnlock(t.Context()))
			redistest.Receive(t, "the end of the lease", lease.Done())
			require.ErrorIs(t, lease.Unlock(), signalbox.ErrLost)
			next := locktest.MustHave(t, waiting)
			require.Greater(t, next.Token(), lease.Token())
			require.NoError(t, next.Unlock())
		})
	}
}

// P6: waiters of other sessions are woken, and waiters in the holder's process ask the server anew.
func TestAForcedLockGoesToTheWaiters(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu, elsewhere := reentrant.New(locktest.SteadySession(t, server), "a", signalbox.WithRenewedLease(longest)), locktest.SteadySession(t, server)
	lease := locktest.Must(t, mu.Lock)
	awaitListening(t, server)
	here, there := locktest.Queue(t.Context(), t, mu.Lock), locktest.Enqueue(t.Context(), t, server, "a", reentrant.New(elsewhere, "a").Lock)
	require.NoError(t, reentrant.New(locktest.SteadySession(t, server), "a").ForceUnlock(t.Context()))
	last := lease.Token()
	for range 2 {
		var got locktest.Result[signalbox.Lease]
		select {
		case got = <-here:
		case got = <-there:
		case <-t.Context().Done():
		}
		require.NoError(t, got.Err)
		require.Greater(t, got.Value.Token(), last)
		last = got.Value.Token()
		require.NoError(t, got.Value.Unlock())
	}
}

// P8: the message is a hint. A client that may publish can make a session ask, and no more.
func TestAForgedMessageChangesNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := locktest.SteadySession(t, server)
	lease := locktest.Must(t, reentrant.New(s, "a", signalbox.WithFixedLease(longest)).Lock)
	awaitListening(t, server)
	before := redistest.EndOf(t, server, locktest.Key("a"))
	deadline := lease.Deadline()
	for _, message := range []string{"", "x", "sb:{b}:lock", strings.Repeat("x", 10_000), locktest.Key("a")} {
		require.Equal(t, int64(1), server.MustDo(t, "PUBLISH", names.Session(names.DefaultPrefix, s.ID()), message))
	}
	requested := func() int64 { return server.CommandStats()["get"].Calls }
	redistest.Await(t, "the question", func() bool { return requested() > 2 })
	require.Equal(t, int64(3), requested())
	require.NoError(t, lease.Err())
	require.WithinDuration(t, deadline, lease.Deadline(), time.Second)
	require.Equal(t, before, redistest.EndOf(t, server, locktest.Key("a")))
	require.NoError(t, lease.Unlock())
}

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

// P10.
func TestAForceThatIsDeniedTakesNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.MustDo(t, "ACL", "SETUSER", "limited", "on", ">secret", "~*", "&*", "+@all", "-time")
	s := signalbox.NewSession(locktest.ClientAs(t, server, "limited", "secret"))
	t.Cleanup(func() { _ = s.Close(locktest.Ended()) })
	lease := locktest.Must(t, reentrant.New(locktest.SteadySession(t, server), "a").Lock)
	require.ErrorIs(t, reentrant.New(s, "a").ForceUnlock(t.Context()), signalbox.ErrDenied)
	require.NoError(t, lease.Unlock())
}
