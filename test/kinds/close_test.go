// SPDX-License-Identifier: Apache-2.0

package kinds_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// P6: Close refuses waiters and waits for holders. A waiter of another session gets the lock then.
func TestCloseRefusesWaitersAndWaitsForHolders(t *testing.T) {
	t.Parallel()
	each(t, everyKind, func(f *fixture) {
		session := f.session(signalbox.WithCloseGrace(redistest.Patience))
		rival, mu := of(f.excludedBy(), session, f.name), f.in(session)
		lease := f.must(rival)
		waits := []pendingLock{locktest.Queue(f.Context(), f, mu.Lock), locktest.Queue(f.Context(), f, rival.Lock)}
		if f.queues != nil && f.Ordered() { // a session that holds a reentrant lock has no ticket
			redistest.Await(f, "a ticket", func() bool { return f.tickets() > 0 })
		}
		elsewhere := locktest.Queue(f.Context(), f, f.lock().Lock)
		closed := make(chan error, 1)
		go func() { closed <- session.Close(f.Context()) }()
		for _, w := range waits {
			require.ErrorIs(f, locktest.MustFail(f, w), signalbox.ErrClosed)
		}
		require.False(f, locktest.IsClosed(closed))
		require.NoError(f, lease.Err())
		if mu, has := rival.(downgrader); has {
			require.ErrorIs(f, mu.Downgrade(f.Context(), lease), signalbox.ErrClosed)
		}
		require.NoError(f, lease.Unlock())
		require.NoError(f, redistest.Receive(f, "the end of Close", closed))
		require.NoError(f, locktest.MustHave(f, elsewhere).Unlock())
		require.ErrorIs(f, second(mu.Lock(f.Context())), signalbox.ErrClosed)
		require.ErrorIs(f, second(mu.TryLock(f.Context())), signalbox.ErrClosed)
	})
}

// soon is the lease of holders that Close may leave behind: with an ended context it has a second to release them, and what
// a busy machine does not release in that time has to expire while the test waits.
const soon = redistest.Patience / 2

// P4: Close ends the leases of holders for which it does not wait, and the lock goes to the next waiter.
func TestCloseEndsTheLeasesOfThoseItDoesNotWaitFor(t *testing.T) {
	t.Parallel()
	each(t, everyKind, func(f *fixture) {
		session := f.session()
		mu := f.in(session, signalbox.WithRenewedLease(soon))
		leases := []signalbox.Lease{f.must(mu)}
		if !exclusive(f.lockKind) {
			leases = append(leases, f.must(mu))
		}
		waiting := f.wait(f.Context(), f.against(), 1)
		require.Error(f, session.Close(locktest.Ended()))
		for _, lease := range leases {
			require.ErrorIs(f, lease.Err(), signalbox.ErrLost)
			require.ErrorIs(f, lease.Err(), signalbox.ErrClosed)
			require.ErrorIs(f, lease.Unlock(), signalbox.ErrLost)
		}
		require.NoError(f, locktest.MustHave(f, waiting).Unlock())
		f.awaitFree()
	})
}

// P4: whenever a session closes, every waiter is refused, leases end, and nothing is left. Package
// semaphore has a test of its own, with several permits.
func TestCloseUnderLoadLeavesNothing(t *testing.T) {
	t.Parallel()
	each(t, reentrant, func(f *fixture) {
		for round := range 3 {
			closing, other := f.session(), f.session()
			var users sync.WaitGroup
			begun := make(chan struct{}, 1000)
			use := func(mu anyLock) {
				for {
					lease, err := mu.Lock(f.Context())
					if err != nil {
						if !errors.Is(err, signalbox.ErrClosed) {
							f.Error(err)
						}
						return
					}
					select {
					case begun <- struct{}{}:
					default:
					}
					err = lease.Unlock()
					if err != nil && !errors.Is(err, signalbox.ErrLost) {
						f.Error(err)
					}
				}
			}
			part := func(n int) *fixture {
				other := *f
				other.name = fmt.Sprint(f.name, "/", round, "/", n%3)
				return &other
			}
			for n := range 10 {
				p := f.Primitive
				if n%5 < 2 {
					p = f.excludedBy()
				}
				users.Go(func() { use(of(p, closing, part(n).name, signalbox.WithRenewedLease(soon))) })
				users.Go(func() { use(of(p, other, part(n).name)) })
			}
			for range 10 + 7*round {
				redistest.Receive(f, "some use", begun)
			}
			ctx := f.Context()
			if round%2 == 0 {
				ctx = locktest.Ended()
			}
			_ = closing.Close(ctx)
			require.NoError(f, other.Close(context.WithoutCancel(f.Context())))
			done := make(chan struct{})
			go func() { users.Wait(); close(done) }()
			redistest.Receive(f, "the end of all users", done)
			for n := range 3 {
				part(n).awaitFree()
			}
		}
	})
}
