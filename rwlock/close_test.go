// SPDX-License-Identifier: Apache-2.0

package rwlock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/locktest"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/rwlock"
)

// P6: Close sends waiters away, and waits for holders; who waits elsewhere has the lock then.
func TestCloseSendsWaitersAwayAndWaitsForHolders(t *testing.T) {
	t.Parallel()
	w := here(t)
	s := w.session(signalbox.WithCloseGrace(redistest.Patience))
	mu := rwlock.New(s, w.name)
	lease := must(t, mu, write)
	waiting := []<-chan result{w.queue(t.Context(), mu, write, 1), w.queue(t.Context(), mu, read, 2)}
	elsewhere := w.queue(t.Context(), w.lock(), read, 3)
	closed := make(chan error, 1)
	go func() { closed <- s.Close(t.Context()) }()
	for _, w := range waiting {
		require.ErrorIs(t, locktest.MustFail(t, w), signalbox.ErrClosed)
	}
	require.False(t, locktest.IsClosed(closed))
	require.NoError(t, lease.Err())
	require.ErrorIs(t, mu.Downgrade(t.Context(), lease), signalbox.ErrClosed)
	require.NoError(t, lease.Unlock())
	require.NoError(t, redistest.Receive(t, "the end of Close", closed))
	require.NoError(t, locktest.MustHave(t, elsewhere).Unlock())
	for _, take := range []side{write, read, tryWrite, tryRead} {
		require.ErrorIs(t, second(take(mu, t.Context())), signalbox.ErrClosed)
	}
}

// P4: where holders are not waited for, their leases end, and the lock goes on.
func TestCloseEndsTheLeasesOfThoseItDoesNotWaitFor(t *testing.T) {
	t.Parallel()
	w := here(t)
	for _, side := range sides() {
		s := w.session()
		mu := rwlock.New(s, w.name, signalbox.RenewedLease(redistest.Patience/2))
		leases := []signalbox.Lease{must(t, mu, side)}
		if beside, err := mu.TryRLock(t.Context()); err == nil {
			leases = append(leases, beside)
		}
		waiting := w.queue(t.Context(), w.lock(), write, 1)
		began := time.Now()
		require.Error(t, s.Close(locktest.Ended()))
		if time.Since(began) < time.Second { // else Close had no time left for the server, and the lease expires
			hold := locktest.NewView(t, w.server).MustHold(t, w.name)
			require.Greater(t, hold.Token, leases[0].Token(), "the lock was not handed over")
		}
		for _, lease := range leases {
			require.ErrorIs(t, lease.Err(), signalbox.ErrLost)
			require.ErrorIs(t, lease.Err(), signalbox.ErrClosed)
			require.ErrorIs(t, lease.Unlock(), signalbox.ErrLost)
		}
		require.NoError(t, locktest.MustHave(t, waiting).Unlock())
		require.Zero(t, mu.Rooms())
	}
}

// P4: wherever a Close falls, everybody is sent away, leases end, and nothing is left. What a Close has no time to give
// back, on a machine that stalls, expires while the test waits for that.
func TestCloseUnderLoadLeavesNothing(t *testing.T) {
	t.Parallel()
	w := here(t)
	for round := range 4 {
		s := w.session()
		other := w.session()
		var users sync.WaitGroup
		begun := make(chan struct{}, 1000)
		use := func(mu *rwlock.Lock, take side) {
			for {
				lease, err := take(mu, t.Context())
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
		part := func(n int) site { return w.of(fmt.Sprint(round, "/", n%2)) }
		for n := range 10 {
			take := read
			if n%5 < 2 {
				take = write
			}
			users.Go(func() { use(rwlock.New(s, part(n).name, signalbox.RenewedLease(redistest.Patience/2)), take) })
			users.Go(func() { use(rwlock.New(other, part(n).name), take) })
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
		for n := range 2 {
			part(n).awaitFree()
		}
		require.Zero(t, rwlock.New(s, w.name).Rooms())
		require.Zero(t, rwlock.New(other, w.name).Rooms())
	}
}
