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
	each(t, everyKind, func(s *fixture) {
		session := s.session(signalbox.WithCloseGrace(redistest.Patience))
		rival, mu := of(s.excludedBy(), session, s.name), s.in(session)
		lease := s.must(rival)
		waits := []pendingLock{locktest.Queue(s.Context(), s, mu.Lock), locktest.Queue(s.Context(), s, rival.Lock)}
		if s.queues != nil && s.Ordered() { // a session that holds a reentrant lock has no ticket
			redistest.Await(s, "a ticket", func() bool { return s.tickets() > 0 })
		}
		elsewhere := locktest.Queue(s.Context(), s, s.lock().Lock)
		closed := make(chan error, 1)
		go func() { closed <- session.Close(s.Context()) }()
		for _, w := range waits {
			require.ErrorIs(s, locktest.MustFail(s, w), signalbox.ErrClosed)
		}
		require.False(s, locktest.IsClosed(closed))
		require.NoError(s, lease.Err())
		if mu, has := rival.(downgrader); has {
			require.ErrorIs(s, mu.Downgrade(s.Context(), lease), signalbox.ErrClosed)
		}
		require.NoError(s, lease.Unlock())
		require.NoError(s, redistest.Receive(s, "the end of Close", closed))
		require.NoError(s, locktest.MustHave(s, elsewhere).Unlock())
		require.ErrorIs(s, second(mu.Lock(s.Context())), signalbox.ErrClosed)
		require.ErrorIs(s, second(mu.TryLock(s.Context())), signalbox.ErrClosed)
	})
}

// soon is the lease of holders that Close may leave behind: with an ended context it has a second to release them, and what
// a busy machine does not release in that time has to expire while the test waits.
const soon = redistest.Patience / 2

// P4: Close ends the leases of holders for which it does not wait, and the lock goes to the next waiter.
func TestCloseEndsTheLeasesOfThoseItDoesNotWaitFor(t *testing.T) {
	t.Parallel()
	each(t, everyKind, func(s *fixture) {
		session := s.session()
		mu := s.in(session, signalbox.WithRenewedLease(soon))
		leases := []signalbox.Lease{s.must(mu)}
		if !exclusive(s.lockKind) {
			leases = append(leases, s.must(mu))
		}
		waiting := s.wait(s.Context(), s.against(), 1)
		require.Error(s, session.Close(locktest.Ended()))
		for _, lease := range leases {
			require.ErrorIs(s, lease.Err(), signalbox.ErrLost)
			require.ErrorIs(s, lease.Err(), signalbox.ErrClosed)
			require.ErrorIs(s, lease.Unlock(), signalbox.ErrLost)
		}
		require.NoError(s, locktest.MustHave(s, waiting).Unlock())
		s.awaitFree()
	})
}

// P4: whenever a session closes, every waiter is refused, leases end, and nothing is left. Package
// semaphore has a test of its own, with several permits.
func TestCloseUnderLoadLeavesNothing(t *testing.T) {
	t.Parallel()
	each(t, reentrant, func(s *fixture) {
		for round := range 3 {
			closing, other := s.session(), s.session()
			var users sync.WaitGroup
			begun := make(chan struct{}, 1000)
			use := func(mu anyLock) {
				for {
					lease, err := mu.Lock(s.Context())
					if err != nil {
						if !errors.Is(err, signalbox.ErrClosed) {
							s.Error(err)
						}
						return
					}
					select {
					case begun <- struct{}{}:
					default:
					}
					err = lease.Unlock()
					if err != nil && !errors.Is(err, signalbox.ErrLost) {
						s.Error(err)
					}
				}
			}
			part := func(n int) *fixture {
				other := *s
				other.name = fmt.Sprint(s.name, "/", round, "/", n%3)
				return &other
			}
			for n := range 10 {
				p := s.Primitive
				if n%5 < 2 {
					p = s.excludedBy()
				}
				users.Go(func() { use(of(p, closing, part(n).name, signalbox.WithRenewedLease(soon))) })
				users.Go(func() { use(of(p, other, part(n).name)) })
			}
			for range 10 + 7*round {
				redistest.Receive(s, "some use", begun)
			}
			ctx := s.Context()
			if round%2 == 0 {
				ctx = locktest.Ended()
			}
			_ = closing.Close(ctx)
			require.NoError(s, other.Close(context.WithoutCancel(s.Context())))
			done := make(chan struct{})
			go func() { users.Wait(); close(done) }()
			redistest.Receive(s, "the end of all users", done)
			for n := range 3 {
				part(n).awaitFree()
			}
		}
	})
}
