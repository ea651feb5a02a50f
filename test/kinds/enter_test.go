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
func (f *fixture) takes(mu anyLock) []func(context.Context) (signalbox.Lease, error) {
	return []func(context.Context) (signalbox.Lease, error){mu.Lock, mu.TryLock}
}

// P7: entering again makes no round trip and allocates nothing, ten contexts deep. A writer may also read.
func TestEnteringAgainSendsNoCommandAndAllocatesNothing(t *testing.T) {
	alone(t, reentrant, func(f *fixture) {
		session := f.session(signalbox.WithPolling())
		mu := f.in(session, signalbox.WithRenewedLease(longest))
		for _, outer := range []locktest.Primitive{f.Primitive, f.excludedBy()} {
			lease := f.must(of(outer, session, f.name, signalbox.WithRenewedLease(longest)))
			ctx := deeper(lease.Enter(f.Context()), 10)
			for n, enter := range f.takes(mu) {
				var allocated float64
				require.Empty(f, f.server.SentBy(func() {
					allocated = testing.AllocsPerRun(100, func() {
						again, err := enter(ctx)
						if err != nil || again.Token() != lease.Token() || again.Err() != nil {
							f.Error("not entered again", n, err)
						}
						if err := again.Unlock(); err != nil {
							f.Error(err)
						}
					})
				}))
				require.Zero(f, allocated, n)
			}
			require.NoError(f, lease.Unlock())
		}
	})
}

// Order: a holder enters again past every waiter: else each would wait for the other.
func TestEnteringAgainDoesNotQueue(t *testing.T) {
	t.Parallel()
	each(t, reentrant, func(f *fixture) {
		mu := f.lock()
		lease := f.must(mu)
		waiting := f.wait(f.Context(), f.against(), 1)
		for _, enter := range f.takes(mu) {
			again, err := enter(lease.Enter(f.Context()))
			require.NoError(f, err)
			require.Equal(f, lease.Token(), again.Token())
			require.NoError(f, again.Unlock())
		}
		require.False(f, locktest.IsClosed(waiting))
		require.NoError(f, lease.Unlock())
		require.NoError(f, locktest.MustHave(f, waiting).Unlock())
	})
}

// P8: the hold goes to the next holder with the last of its leases, whichever that is.
func TestTheHoldLastsUntilTheLastOfItsLeasesEnds(t *testing.T) {
	t.Parallel()
	each(t, reentrant, func(f *fixture) {
		session := f.session()
		mu := f.in(session)
		for _, outer := range []locktest.Primitive{f.Primitive, f.excludedBy()} {
			for _, outerFirst := range []bool{true, false} {
				lease := f.must(of(outer, session, f.name))
				inner := f.again(mu, lease)
				waiting := f.wait(f.Context(), f.against(), 1)
				hold := f.view.MustHold(f, f.name).ID
				first, last := lease, inner
				if !outerFirst {
					first, last = inner, lease
				}
				require.NoError(f, first.Unlock())
				require.NoError(f, last.Err())
				require.True(f, f.isHeld())
				require.Equal(f, hold, f.view.MustHold(f, f.name).ID)
				require.False(f, locktest.IsClosed(waiting))
				require.NoError(f, last.Unlock())
				require.NoError(f, locktest.MustHave(f, waiting).Unlock())
			}
		}
	})
}

// P1: a carried lease that was released is an error, never a new acquire, also if the context itself has not ended.
func TestACarriedLeaseThatWasReleasedNeverAcquires(t *testing.T) { //nolint:paralleltest // commands are counted
	alone(t, reentrant, func(f *fixture) {
		mu := f.in(f.session(signalbox.WithPolling()))
		lease := f.must(mu)
		entered := lease.Enter(f.Context())
		require.NoError(f, lease.Unlock())
		require.Empty(f, f.server.SentBy(func() { f.neverAcquires(entered, mu, lease, signalbox.ErrReleased) }))
	})
}

// P1: so it is if the lease was lost.
func TestACarriedLeaseThatWasLostNeverAcquires(t *testing.T) {
	t.Parallel()
	each(t, reentrant, func(f *fixture) {
		mu := f.lock()
		lease := f.must(mu)
		entered := lease.Enter(f.Context())
		forced, _ := mu.(forceUnlocker)
		require.NoError(f, forced.ForceUnlock(f.Context()))
		redistest.Receive(f, "the end of the lease", lease.Done())
		f.neverAcquires(entered, mu, lease, signalbox.ErrLost)
		require.False(f, f.isHeld())
	})
}

// neverAcquires checks that contexts that carry an ended lease acquire nothing.
func (f *fixture) neverAcquires(entered context.Context, mu anyLock, lease signalbox.Lease, want error) {
	f.Helper()
	for _, ctx := range []context.Context{entered, lease.Enter(f.Context()), context.WithoutCancel(entered), deeper(entered, 3)} {
		for _, take := range f.takes(mu) {
			require.ErrorIs(f, second(take(ctx)), want)
		}
		require.ErrorIs(f, mu.Do(ctx, func(context.Context, signalbox.Lease) error {
			f.Error("a lease that has ended was entered")
			return nil
		}), want)
	}
}

// P1, P8: leases of another session or name enter nothing. Bound contexts do not enter either, and keep a
// carried lease.
func TestOnlyACarriedLeaseOfTheSessionEnters(t *testing.T) {
	t.Parallel()
	each(t, reentrant, func(f *fixture) {
		session := f.session()
		mu, elsewhere := f.in(session), f.lock()
		lease := f.must(of(f.excludedBy(), session, f.name))
		other := of(f.Primitive, session, f.name+"/b")
		for n, take := range f.takes(other) {
			require.ErrorIs(f, second(elsewhere.TryLock(lease.Enter(f.Context()))), signalbox.ErrHeld)
			require.ErrorIs(f, second(mu.TryLock(lease.Bind(f.Context()))), signalbox.ErrHeld)
			again, err := mu.TryLock(lease.Bind(lease.Enter(f.Context())))
			require.NoError(f, err)
			require.NoError(f, again.Unlock())
			inner, err := take(lease.Enter(f.Context()))
			require.NoError(f, err, n)
			require.NotEqual(f, lease.Token(), inner.Token())
			both := inner.Enter(lease.Enter(f.Context()))
			for mu, lease := range map[anyLock]signalbox.Lease{mu: lease, other: inner} {
				again, err := mu.TryLock(both)
				require.NoError(f, err)
				require.Equal(f, lease.Token(), again.Token())
				require.NoError(f, again.Unlock())
			}
			require.NoError(f, inner.Unlock())
		}
		ctx, cancel := context.WithCancel(lease.Enter(f.Context()))
		waiting := f.wait(ctx, elsewhere, 1)
		cancel()
		require.ErrorIs(f, locktest.MustFail(f, waiting), context.Canceled)
		require.NoError(f, lease.Unlock())
	})
}

// P3: all entries of a hold have its token, and its terms: entering again neither extends a fixed lease nor
// shortens a renewed one.
func TestEnteringAgainKeepsTokenAndTerms(t *testing.T) {
	t.Parallel()
	each(t, reentrant, func(f *fixture) {
		session := f.session()
		for _, outer := range []locktest.Primitive{f.Primitive, f.excludedBy()} {
			for _, terms := range []signalbox.LockOption{signalbox.WithFixedLease(time.Hour), signalbox.WithRenewedLease(longest)} {
				lease := f.must(of(outer, session, f.name, terms))
				ends := f.view.MustHold(f, f.name).Ends
				var entries []signalbox.Lease
				for n := range 4 {
					option := []signalbox.LockOption{signalbox.WithFixedLease(time.Second), signalbox.WithRenewedLease(2 * time.Hour)}[n%2]
					again, err := f.takes(f.in(session, option))[n/2](lease.Enter(f.Context()))
					require.NoError(f, err)
					require.Equal(f, lease.Token(), again.Token())
					require.WithinDuration(f, lease.Deadline(), again.Deadline(), time.Second)
					entries = append(entries, again)
				}
				require.Equal(f, ends, f.view.MustHold(f, f.name).Ends)
				for _, entry := range append(entries, lease) {
					require.NoError(f, lease.Err())
					require.NoError(f, entry.Unlock())
				}
			}
		}
	})
}
