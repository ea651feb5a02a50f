// SPDX-License-Identifier: Apache-2.0

package kinds_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

type depthKey int

// deeper returns ctx with values around it, as requests add them.
func deeper(ctx context.Context, depth int) context.Context {
	for i := range depth {
		ctx = context.WithValue(ctx, depthKey(i), i)
	}
	return ctx
}

// takes returns the methods that acquire mu, or enter it again.
func (s *fixture) takes(mu anyLock) []func(context.Context) (signalbox.Lease, error) {
	return []func(context.Context) (signalbox.Lease, error){mu.Lock, mu.TryLock}
}

// P7: entering again makes no round trip and allocates nothing, ten contexts deep. A writer may also read.
func TestEnteringAgainSendsNoCommandAndAllocatesNothing(t *testing.T) {
	alone(t, reentrant, func(s *fixture) {
		session := s.session(signalbox.WithPolling())
		mu := s.in(session, signalbox.WithRenewedLease(longest))
		for _, outer := range []locktest.Primitive{s.Primitive, s.excludedBy()} {
			lease := s.must(of(outer, session, s.name, signalbox.WithRenewedLease(longest)))
			ctx := deeper(lease.Enter(s.Context()), 10)
			for n, enter := range s.takes(mu) {
				var allocated float64
				require.Empty(s, s.server.SentBy(func() {
					allocated = testing.AllocsPerRun(100, func() {
						again, err := enter(ctx)
						if err != nil || again.Token() != lease.Token() || again.Err() != nil {
							s.Error("not entered again", n, err)
						}
						if err := again.Unlock(); err != nil {
							s.Error(err)
						}
					})
				}))
				require.Zero(s, allocated, n)
			}
			require.NoError(s, lease.Unlock())
		}
	})
}

// Order: a holder enters again past every waiter: else each would wait for the other.
func TestEnteringAgainDoesNotQueue(t *testing.T) {
	t.Parallel()
	each(t, reentrant, func(s *fixture) {
		mu := s.lock()
		lease := s.must(mu)
		waiting := s.wait(s.Context(), s.against(), 1)
		for _, enter := range s.takes(mu) {
			again, err := enter(lease.Enter(s.Context()))
			require.NoError(s, err)
			require.Equal(s, lease.Token(), again.Token())
			require.NoError(s, again.Unlock())
		}
		require.False(s, locktest.IsClosed(waiting))
		require.NoError(s, lease.Unlock())
		require.NoError(s, locktest.MustHave(s, waiting).Unlock())
	})
}

// P8: the hold goes to the next holder with the last of its leases, whichever that is.
func TestTheHoldLastsUntilTheLastOfItsLeasesEnds(t *testing.T) {
	t.Parallel()
	each(t, reentrant, func(s *fixture) {
		session := s.session()
		mu := s.in(session)
		for _, outer := range []locktest.Primitive{s.Primitive, s.excludedBy()} {
			for _, outerFirst := range []bool{true, false} {
				lease := s.must(of(outer, session, s.name))
				inner := s.again(mu, lease)
				waiting := s.wait(s.Context(), s.against(), 1)
				hold := s.view.MustHold(s, s.name).ID
				first, last := lease, inner
				if !outerFirst {
					first, last = inner, lease
				}
				require.NoError(s, first.Unlock())
				require.NoError(s, last.Err())
				require.True(s, s.isHeld())
				require.Equal(s, hold, s.view.MustHold(s, s.name).ID)
				require.False(s, locktest.IsClosed(waiting))
				require.NoError(s, last.Unlock())
				require.NoError(s, locktest.MustHave(s, waiting).Unlock())
			}
		}
	})
}

// P1: a carried lease that was released is an error, never a new acquire, also if the context itself has not ended.
func TestACarriedLeaseThatWasReleasedNeverAcquires(t *testing.T) { //nolint:paralleltest // commands are counted
	alone(t, reentrant, func(s *fixture) {
		mu := s.in(s.session(signalbox.WithPolling()))
		lease := s.must(mu)
		entered := lease.Enter(s.Context())
		require.NoError(s, lease.Unlock())
		require.Empty(s, s.server.SentBy(func() { s.neverAcquires(entered, mu, lease, signalbox.ErrReleased) }))
	})
}

// P1: so it is if the lease was lost.
func TestACarriedLeaseThatWasLostNeverAcquires(t *testing.T) {
	t.Parallel()
	each(t, reentrant, func(s *fixture) {
		mu := s.lock()
		lease := s.must(mu)
		entered := lease.Enter(s.Context())
		forced, _ := mu.(forceUnlocker)
		require.NoError(s, forced.ForceUnlock(s.Context()))
		redistest.Receive(s, "the end of the lease", lease.Done())
		s.neverAcquires(entered, mu, lease, signalbox.ErrLost)
		require.False(s, s.isHeld())
	})
}

// neverAcquires checks that contexts that carry an ended lease acquire nothing.
func (s *fixture) neverAcquires(entered context.Context, mu anyLock, lease signalbox.Lease, want error) {
	s.Helper()
	for _, ctx := range []context.Context{entered, lease.Enter(s.Context()), context.WithoutCancel(entered), deeper(entered, 3)} {
		for _, take := range s.takes(mu) {
			require.ErrorIs(s, second(take(ctx)), want)
		}
		require.ErrorIs(s, mu.Do(ctx, func(context.Context, signalbox.Lease) error {
			s.Error("a lease that has ended was entered")
			return nil
		}), want)
	}
}

// P1, P8: leases of another session or name enter nothing. Bound contexts do not enter either, and keep a
// carried lease.
func TestOnlyACarriedLeaseOfTheSessionEnters(t *testing.T) {
	t.Parallel()
	each(t, reentrant, func(s *fixture) {
		session := s.session()
		mu, elsewhere := s.in(session), s.lock()
		lease := s.must(of(s.excludedBy(), session, s.name))
		other := of(s.Primitive, session, s.name+"/b")
		for n, take := range s.takes(other) {
			require.ErrorIs(s, second(elsewhere.TryLock(lease.Enter(s.Context()))), signalbox.ErrHeld)
			require.ErrorIs(s, second(mu.TryLock(lease.Bind(s.Context()))), signalbox.ErrHeld)
			again, err := mu.TryLock(lease.Bind(lease.Enter(s.Context())))
			require.NoError(s, err)
			require.NoError(s, again.Unlock())
			inner, err := take(lease.Enter(s.Context()))
			require.NoError(s, err, n)
			require.NotEqual(s, lease.Token(), inner.Token())
			both := inner.Enter(lease.Enter(s.Context()))
			for mu, lease := range map[anyLock]signalbox.Lease{mu: lease, other: inner} {
				again, err := mu.TryLock(both)
				require.NoError(s, err)
				require.Equal(s, lease.Token(), again.Token())
				require.NoError(s, again.Unlock())
			}
			require.NoError(s, inner.Unlock())
		}
		ctx, cancel := context.WithCancel(lease.Enter(s.Context()))
		waiting := s.wait(ctx, elsewhere, 1)
		cancel()
		require.ErrorIs(s, locktest.MustFail(s, waiting), context.Canceled)
		require.NoError(s, lease.Unlock())
	})
}

// P3: all entries of a hold have its token, and its terms: entering again neither extends a fixed lease nor
// shortens a renewed one.
func TestEnteringAgainKeepsTokenAndTerms(t *testing.T) {
	t.Parallel()
	each(t, reentrant, func(s *fixture) {
		session := s.session()
		for _, outer := range []locktest.Primitive{s.Primitive, s.excludedBy()} {
			for _, terms := range []signalbox.LockOption{signalbox.WithFixedLease(time.Hour), signalbox.WithRenewedLease(longest)} {
				lease := s.must(of(outer, session, s.name, terms))
				ends := s.view.MustHold(s, s.name).Ends
				var entries []signalbox.Lease
				for n := range 4 {
					option := []signalbox.LockOption{signalbox.WithFixedLease(time.Second), signalbox.WithRenewedLease(2 * time.Hour)}[n%2]
					again, err := s.takes(s.in(session, option))[n/2](lease.Enter(s.Context()))
					require.NoError(s, err)
					require.Equal(s, lease.Token(), again.Token())
					require.WithinDuration(s, lease.Deadline(), again.Deadline(), time.Second)
					entries = append(entries, again)
				}
				require.Equal(s, ends, s.view.MustHold(s, s.name).Ends)
				for _, entry := range append(entries, lease) {
					require.NoError(s, lease.Err())
					require.NoError(s, entry.Unlock())
				}
			}
		}
	})
}
