// SPDX-License-Identifier: Apache-2.0

package multilock_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/scripts"
)

// P6: a member that is free and has a waiter in its queue that is alive goes to that waiter: neither TryLock nor Lock overtakes
// it, and Lock holds none behind that member while it waits.
func TestMembersThatHaveAQueueAreNotOvertaken(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mine := named(locktest.SteadySession(t, server), "a", "b", "c")
	name, key := nameOf(mine[1]), locktest.Key(nameOf(mine[1]))
	theirs := mustLock(t, reentrant.New(locktest.SteadySession(t, server), name, signalbox.WithFixedLease(time.Hour)))
	waiting := locktest.Enqueue(t.Context(), t, server, name, fair.New(locktest.SteadySession(t, server), name).Lock)
	value, _ := server.MustDo(t, "GET", key).(string)
	server.MustDo(t, "SET", key, value[:20]+strings.Repeat("-", 42)+"q", "PX", 600_000) // the key after a hold has ended by itself
	_, err := all(mine).TryLock(locktest.Context(t))
	require.ErrorIs(t, err, signalbox.ErrHeld)
	require.ErrorContains(t, err, `"`+name+`"`)
	lease := locktest.MustHave(t, waiting)
	require.Equal(t, []int{1}, held(t, mine))
	require.ErrorIs(t, theirs.Unlock(), signalbox.ErrLost)

	many := locktest.Enqueue(t.Context(), t, server, name, all(mine).Lock)
	require.Equal(t, []int{0, 1}, held(t, mine))
	require.NoError(t, lease.Unlock())
	got := locktest.MustHave(t, many)
	require.Len(t, held(t, mine), 3)
	require.NoError(t, got.Unlock())
	require.Empty(t, held(t, mine))
}

// P6, P7: the members go in one call, and one more for each that a waiter is in the queue of, which has it at once.
func TestReleasedMembersAreHandedOverToTheirWaiters(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	redistest.LoadScripts(t, server)
	proxy := redistest.NewProxy(t, server.Addr())
	mine, theirs := named(locktest.SteadySession(t, proxy), "a", "b", "c"), locktest.SteadySession(t, server)
	lease := mustLock(t, all(mine))
	waiting := []<-chan locktest.Result[signalbox.Lease]{
		locktest.Enqueue(t.Context(), t, server, "a", reentrant.New(theirs, "a").Lock),
		locktest.Enqueue(t.Context(), t, server, "b", fair.New(theirs, "b").Lock),
	}
	sent := make(chan string, 100)
	proxy.OnRequest(func(_ int, request []string) { sent <- locktest.CommandName(request) })
	proxy.SetMatch(locktest.RunsScript(scripts.LockReleaseMany, scripts.LockLeave, scripts.LockRequeue, scripts.LockEnter, scripts.LockAcquireMany))
	require.NoError(t, lease.Unlock())
	for _, script := range []string{"lock/release-many", "lock/leave", "lock/leave"} {
		require.Equal(t, script, redistest.Receive(t, "a request", sent))
	}
	for _, w := range waiting {
		require.NoError(t, locktest.MustHave(t, w).Unlock())
	}
	require.Empty(t, held(t, mine))
	require.Empty(t, sent)
}
