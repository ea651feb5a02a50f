// SPDX-License-Identifier: Apache-2.0

package fair_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/locktest"
	"github.com/signalbox-go/signalbox/internal/redistest"
)

// P6: Close sends waiters away, and waits for holders.
func TestCloseSendsWaitersAwayAndWaitsForHolders(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := locktest.SteadySession(t, server, signalbox.WithCloseGrace(redistest.Patience))
	mu := fair.New(s, "a")
	lease := locktest.Must(t, mu.Lock)
	waiting := []<-chan locktest.Result[signalbox.Lease]{queue(t.Context(), t, server, mu, "a", 1), queue(t.Context(), t, server, mu, "a", 2)}
	elsewhere := queue(t.Context(), t, server, fair.New(locktest.SteadySession(t, server), "a"), "a", 3)
	closed := make(chan error, 1)
	go func() { closed <- s.Close(t.Context()) }()
	for _, w := range waiting {
		require.ErrorIs(t, redistest.Receive(t, "the end of a wait", w).Err, signalbox.ErrClosed)
	}
	require.False(t, locktest.IsClosed(closed))
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Unlock())
	require.NoError(t, redistest.Receive(t, "the end of Close", closed))
	require.NoError(t, locktest.MustHave(t, elsewhere).Unlock())
	_, err := mu.Lock(t.Context())
	require.ErrorIs(t, err, signalbox.ErrClosed)
}

// P4: where holders are not waited for, their leases end, and the lock goes on.
func TestCloseEndsTheLeasesOfThoseItDoesNotWaitFor(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := locktest.SteadySession(t, server)
	lease := locktest.Must(t, fair.New(s, "a", signalbox.RenewedLease(redistest.Patience/2)).Lock)
	waiting := queue(t.Context(), t, server, fair.New(locktest.SteadySession(t, server), "a"), "a", 1)
	began := time.Now()
	require.Error(t, s.Close(locktest.Ended()))
	if time.Since(began) < time.Second { // else Close had no time left for the server, and the lease expires
		hold := locktest.NewView(t, server).MustHold(t, "a")
		require.Greater(t, hold.Token, lease.Token(), "the lock was not handed over")
	}
	require.ErrorIs(t, lease.Err(), signalbox.ErrLost)
	require.ErrorIs(t, lease.Err(), signalbox.ErrClosed)
	require.ErrorIs(t, lease.Unlock(), signalbox.ErrLost)
	require.NoError(t, locktest.MustHave(t, waiting).Unlock())
}

// P4: wherever a Close falls, everybody is sent away, leases end, and nothing is left. What a Close has no time to give
// back, on a machine that stalls, expires while the test waits for that.
func TestCloseUnderLoadLeavesNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for round := range 12 {
		s := locktest.SteadySession(t, server)
		other := locktest.SteadySession(t, server)
		var users sync.WaitGroup
		begun := make(chan struct{}, 1000)
		use := func(mu *fair.Lock) {
			for {
				lease, err := mu.Lock(t.Context())
				if err != nil {
					if !errors.Is(err, signalbox.ErrClosed) {
						t.Error(err)
					}
					return
				}
				select {
				case begun <- struct{}{}:
				default:
				}
				err = lease.Unlock()
				if err != nil && !errors.Is(err, signalbox.ErrLost) {
					t.Error(err)
				}
			}
		}
		name := func(n int) string { return fmt.Sprint("load/", round, "/", n%3) }
		for n := range 9 {
			users.Go(func() { use(fair.New(s, name(n), signalbox.RenewedLease(redistest.Patience/2))) })
			users.Go(func() { use(fair.New(other, name(n))) })
		}
		for range 10 + 7*round {
			redistest.Receive(t, "some use", begun)
		}
		ctx := t.Context()
		if round%2 == 0 {
			ctx = locktest.Ended()
		}
		_ = s.Close(ctx)
		require.NoError(t, other.Close(context.WithoutCancel(t.Context())))
		done := make(chan struct{})
		go func() { users.Wait(); close(done) }()
		redistest.Receive(t, "the end of all users", done)
		for n := range 3 {
			redistest.Await(t, "the end of it on the server", func() bool {
				return !isHeld(t, server, name(n)) && inLine(t, server, name(n)) == 0
			})
		}
	}
}
