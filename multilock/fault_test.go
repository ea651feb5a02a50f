// SPDX-License-Identifier: Apache-2.0

package multilock_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/multilock"
	"github.com/signalbox-go/signalbox/reentrant"
)

// P2, P4: the loss of one member is the loss of all: the lease ends, and the others are released.
func TestTheLossOfOneIsTheLossOfAll(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := locktest.SteadySession(t, server)
	others, mine := allKinds(locktest.SteadySession(t, server)), allKinds(s)
	for i := range mine {
		if _, counted := mine[i].(permitsLock); counted {
			continue // they cannot be taken away
		}
		lease := mustLock(t, all(mine))
		bound := lease.Bind(t.Context())
		require.NoError(t, others[i].ForceUnlock(locktest.Context(t)))
		redistest.Receive(t, "the end of the lease", lease.Done())
		require.ErrorIs(t, lease.Err(), signalbox.ErrLost)
		require.ErrorContains(t, lease.Err(), nameOf(mine[i]))
		redistest.Receive(t, "the end of what is bound", bound.Done())
		require.ErrorIs(t, context.Cause(bound), signalbox.ErrLost)
		require.ErrorIs(t, lease.Unlock(), signalbox.ErrLost)
		awaitFree(t, mine, s)
	}
}

// P4: a wait that is given up leaves nothing, whichever member it was for.
func TestCancelledAtEachMemberNothingIsLeft(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, other := locktest.SteadySession(t, server), locktest.SteadySession(t, server)
	mine, others := allKinds(s), allKinds(other)
	for i := range mine {
		if r, reads := others[i].(readerLock); reads {
			others[i] = writerLock{r.whole}
		}
		theirs := mustLock(t, others[i])
		ctx, cancel := context.WithCancel(t.Context())
		waiting := locktest.LaterWith(ctx, all(mine).Lock)
		redistest.Await(t, "the members before it", func() bool { return len(held(t, mine)) == i+1 })
		cancel()
		require.ErrorIs(t, locktest.MustFail(t, waiting), context.Canceled)
		redistest.Await(t, "the members released", func() bool { return len(held(t, mine)) == 1 })
		require.NoError(t, theirs.Unlock())
		awaitFree(t, mine, s)
	}
}

// P4: the members of a closed session are lost, and the whole with them; those of others are released.
func TestClosedSessionEndsTheWhole(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	one, other := locktest.SteadySession(t, server), locktest.SteadySession(t, server)
	mine := []forcibleLock{reentrant.New(one, "a"), fair.New(other, "b")}
	lease := mustLock(t, all(mine))
	require.Error(t, one.Close(locktest.Ended()))
	redistest.Receive(t, "the end of the lease", lease.Done())
	require.ErrorIs(t, lease.Err(), signalbox.ErrLost)
	require.ErrorIs(t, lease.Err(), signalbox.ErrClosed)
	awaitFree(t, []forcibleLock{reentrant.New(other, "a"), mine[1]}, other)
	_, err := all(mine).Lock(locktest.Context(t))
	require.ErrorIs(t, err, signalbox.ErrClosed)
	awaitFree(t, mine[1:], other)
}

// P4: the wait of a session that closes ends with ErrClosed, and nothing is left of the other session.
func TestASessionThatClosesEndsTheWait(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	one, other := locktest.SteadySession(t, server), locktest.SteadySession(t, server)
	theirs := mustLock(t, reentrant.New(locktest.SteadySession(t, server), "b"))
	waiting := locktest.LaterWith(locktest.Context(t), multilock.New(reentrant.New(one, "a"), reentrant.New(one, "c"), reentrant.New(other, "b")).Lock)
	view := named(locktest.SteadySession(t, server), "a", "c")
	redistest.Await(t, "a waiter", func() bool { return locktest.Tickets(t, server, "b") == 1 })
	require.NoError(t, other.Close(locktest.Context(t)))
	require.ErrorIs(t, locktest.MustFail(t, waiting), signalbox.ErrClosed)
	awaitFree(t, view, one)
	require.NoError(t, theirs.Unlock())
}

// P7: a multilock that is held costs no goroutine.
func TestHeldMultilocksHaveNoGoroutines(t *testing.T) { //nolint:paralleltest // counts all goroutines
	s := locktest.SteadySession(t, redistest.Start(t))
	var leases []signalbox.Lease
	for i := range 100 {
		leases = append(leases, mustLock(t, all(named(s, fmt.Sprint("a", i), fmt.Sprint("b", i)))))
	}
	redistest.Await(t, "no goroutine of a multilock", func() bool {
		stacks := make([]byte, 1<<22)
		return !strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "multilock.(*")
	})
	for _, lease := range leases {
		require.NoError(t, lease.Unlock())
	}
}
