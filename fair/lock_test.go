// SPDX-License-Identifier: Apache-2.0

package fair_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// Order: first in, first out, over sessions and within them.
func TestTheLockIsGivenInTheOrderInWhichItWasAskedFor(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mus := []*fair.Lock{fair.New(locktest.SteadySession(t, server), "a"), fair.New(locktest.SteadySession(t, server), "a"), fair.New(locktest.SteadySession(t, server), "a")}
	lease := locktest.Must(t, mus[0].Lock)
	var waiting []<-chan locktest.Result[signalbox.Lease]
	for n := range 15 {
		waiting = append(waiting, locktest.Enqueue(t.Context(), t, server, "a", mus[n*n%3].Lock))
	}
	for n, next := range waiting {
		require.NoError(t, lease.Unlock())
		lease = locktest.MustHave(t, next)
		for _, later := range waiting[n+1:] {
			require.False(t, locktest.IsClosed(later))
		}
	}
	require.NoError(t, lease.Unlock())
}

// Order: a waiter that leaves delays no other, and queues at the end when it returns.
func TestAWaiterThatReturnsQueuesAtTheEnd(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	holder, one, other := fair.New(locktest.SteadySession(t, server), "a"), fair.New(locktest.SteadySession(t, server), "a"), fair.New(locktest.SteadySession(t, server), "a")
	lease := locktest.Must(t, holder.Lock)
	ctx, cancel := context.WithCancel(t.Context())
	leaves := locktest.Enqueue(ctx, t, server, "a", one.Lock)
	stays := locktest.Enqueue(t.Context(), t, server, "a", other.Lock)
	cancel()
	require.ErrorIs(t, redistest.Receive(t, "the end of the wait", leaves).Err, context.Canceled)
	redistest.Await(t, "the end of the ticket", func() bool { return locktest.Tickets(t, server, "a") == 1 })
	comes := locktest.Enqueue(t.Context(), t, server, "a", one.Lock)
	require.NoError(t, lease.Unlock())
	lease = locktest.MustHave(t, stays)
	require.False(t, locktest.IsClosed(comes))
	require.NoError(t, lease.Unlock())
	require.NoError(t, locktest.MustHave(t, comes).Unlock())
}
