// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/semaphore"
)

// permitsFree returns how many permits are free, by the server's account.
func permitsFree(f *fixture, sem *semaphore.Semaphore) int {
	f.Helper()
	n, err := sem.Available(f.Context())
	require.NoError(f, err)
	return n
}

// P2: permits are renewed as long as they are held, and the lease never outlasts them on the server.
func TestPermitsAreRenewedAsLongAsTheyAreHeld(t *testing.T) {
	t.Parallel()
	eachLayout(t, func(f *fixture, options []signalbox.LockOption) {
		there := semaphore.New(f.user().Session, "a", 2, options...)
		lease := mustAcquire(f, semaphore.New(f.user().Session, "a", 2, append(options, signalbox.WithRenewedLease(6*time.Second))...), 2)
		for range 600 {
			time.Sleep(time.Second)
			require.NoError(f, lease.Err())
			require.Zero(f, permitsFree(f, there))
			if options == nil {
				require.True(f, lease.Deadline().Before(f.firstEnd("a")))
			}
		}
		require.NoError(f, lease.Unlock())
		require.Equal(f, 2, permitsFree(f, there))
	})
}

// P1, P2, P6: a lease that is not renewed ends before its permits are free. They go to a waiter by
// themselves, and a late release adds none.
func TestPermitsThatAreNotRenewedComeBackAfterTheirLease(t *testing.T) {
	t.Parallel()
	const life = 10 * time.Second
	eachLayout(t, func(f *fixture, options []signalbox.LockOption) {
		holder, there := f.user(), semaphore.New(f.user().Session, "a", 2, options...)
		for _, c := range []struct {
			options []signalbox.LockOption
			crashes bool
			why     error
		}{
			{[]signalbox.LockOption{signalbox.WithFixedLease(life)}, false, signalbox.ErrLost},
			{[]signalbox.LockOption{signalbox.WithRenewedLease(life * 2 / 3), signalbox.WithMaxHold(life)}, false, signalbox.ErrMaxHold},
			{[]signalbox.LockOption{signalbox.WithRenewedLease(life)}, true, signalbox.ErrLost},
		} {
			lasts := life
			if c.crashes && len(options) == 0 {
				lasts = 3 * time.Second // before its first renewal
			}
			began := time.Now()
			lease := mustAcquire(f, semaphore.New(holder.Session, "a", 2, append(c.options, options...)...), 2)
			waiting := acquiring(f.Context(), there, 1)
			if c.crashes {
				holder.goSilent()
			}
			redistest.Receive(f, "the end of the lease", lease.Done())
			require.ErrorIs(f, lease.Err(), c.why)
			require.WithinRange(f, time.Now(), began.Add(lasts*9/10), began.Add(lasts))
			require.Zero(f, permitsFree(f, there), "it ends here first")
			next := locktest.MustHave(f, waiting)
			require.WithinRange(f, time.Now(), began.Add(lasts*9/10), began.Add(lasts+time.Second))
			require.Greater(f, next.Token(), lease.Token())
			holder.heal()
			require.ErrorIs(f, lease.Unlock(), c.why)
			time.Sleep(time.Second)
			require.Equal(f, 1, permitsFree(f, there))
			require.NoError(f, next.Unlock())
			require.Equal(f, 2, permitsFree(f, there))
		}
	})
}

// P2, P8: permits that the server lost are reported by the next renewal, which creates none; nor does the
// release. They are also reported when parts of them are released.
func TestLostPermitsAreReportedByTheNextRenewal(t *testing.T) {
	t.Parallel()
	const life = 9 * time.Second
	eachLayout(t, func(f *fixture, options []signalbox.LockOption) {
		sem := semaphore.New(f.user().Session, "a", 3, append(options, signalbox.WithRenewedLease(life))...)
		lease, parts := mustAcquire(f, sem, 1), sem.Weighted(f.Context())
		var losses []error
		parts.OnLost(func(err error) { losses = append(losses, err) })
		require.NoError(f, parts.Acquire(f.Context(), 2))
		f.redis.FlushAll()
		began := time.Now()
		redistest.Receive(f, "the end of the lease", lease.Done())
		require.LessOrEqual(f, time.Since(began), life/3)
		require.ErrorIs(f, lease.Unlock(), signalbox.ErrLost)
		parts.Release(1)
		parts.Release(1)
		require.Len(f, losses, 2)
		require.ErrorIs(f, losses[0], signalbox.ErrLost)
		require.ErrorIs(f, losses[1], signalbox.ErrLost)
		require.NoError(f, mustAcquire(f, sem, 3).Unlock())
		require.Equal(f, 3, permitsFree(f, sem))
	})
}

// P2: what is kept of permits does not last longer because some were released, if their lease is fixed or has a greatest
// length.
func TestPermitsThatAreKeptLastNoLonger(t *testing.T) {
	t.Parallel()
	for name, option := range map[string]signalbox.LockOption{
		"FixedLease": signalbox.WithFixedLease(time.Minute), "MaxHold": signalbox.WithMaxHold(20 * time.Second),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubbleOfUsers(t, func(f *fixture) {
				sem := semaphore.New(f.user().Session, "a", 2, option)
				parts := sem.Weighted(f.Context())
				require.NoError(f, parts.Acquire(f.Context(), 2))
				time.Sleep(15 * time.Second)
				ends := f.firstEnd("a")
				parts.Release(1)
				require.WithinDuration(f, ends, f.firstEnd("a"), time.Millisecond)
				parts.Release(1)
			})
		})
	}
}

// P6: a waiter that no message reaches, because it is lost or because the session polls, has the permits about a second
// later.
func TestWaiterFindsPermitsByAPoll(t *testing.T) {
	t.Parallel()
	eachLayout(t, func(f *fixture, options []signalbox.LockOption) {
		for _, unsubscribed := range []queueUser{f.user(), f.user(signalbox.WithPolling())} {
			held := mustAcquire(f, semaphore.New(f.user().Session, "a", 3, options...), 3)
			waiting := acquiring(f.Context(), semaphore.New(unsubscribed.Session, "a", 3, options...), 1)
			time.Sleep(5 * time.Second)
			unsubscribed.losesMessages.Store(true)
			require.NoError(f, held.Unlock())
			released := time.Now()
			lease := locktest.MustHave(f, waiting)
			require.LessOrEqual(f, time.Since(released), 1500*time.Millisecond)
			require.NoError(f, lease.Unlock())
		}
	})
}

// P6: the ticket of a waiter that crashed keeps those behind it out until its heartbeats are missed, for seconds.
func TestPermitTicketOfACrashedWaiterEnds(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		crashes := f.user()
		held := mustAcquire(f, semaphore.New(f.user().Session, "a", 2), 2)
		_ = acquiring(f.Context(), semaphore.New(crashes.Session, "a", 2), 2)
		behind := acquiring(f.Context(), semaphore.New(f.user().Session, "a", 2), 1)
		time.Sleep(time.Minute)
		crashes.goSilent()
		require.NoError(f, held.Unlock())
		released := time.Now()
		require.NoError(f, locktest.MustHave(f, behind).Unlock())
		require.LessOrEqual(f, time.Since(released), 5*time.Second)
	})
}

// P6: Close ends a wait for more permits than there are.
func TestCloseEndsAWeightedWaitForMoreThanThereAre(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		s := f.user()
		parts := semaphore.New(s.Session, "a", 2).Weighted(f.Context())
		doomed := f.later(func() error { return parts.Acquire(context.Background(), 3) })
		require.NoError(f, parts.Acquire(f.Context(), 2))
		parts.Release(2)
		require.Empty(f, doomed)
		require.NoError(f, s.Close(f.Context()))
		require.ErrorIs(f, redistest.Receive(f, "the end of the wait", doomed), signalbox.ErrClosed)
	})
}

// P7: permits that are held cost no goroutine each, and those that are waited for one ticket, one subscription, and a poll a
// second together; when all are back a session does nothing.
func TestManyPermitsCostWhatOneDoes(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		const many = 100
		s, other := f.user(), f.user()
		sem := semaphore.New(s.Session, "a", many)
		leases := []signalbox.Lease{mustAcquire(f, sem, 1)}
		costs := func() (scripts, running int) {
			time.Sleep(time.Minute)
			before := f.scripts.Load()
			time.Sleep(time.Minute)
			return int(f.scripts.Load() - before), goroutines()
		}
		_, running := costs()
		for range many - 1 {
			leases = append(leases, mustAcquire(f, sem, 1))
		}
		scripts, now := costs()
		require.LessOrEqual(f, now, running+1)
		var waiting []<-chan locktest.Result[signalbox.Lease]
		for range many {
			waiting = append(waiting, acquiring(f.Context(), semaphore.New(other.Session, "a", many), 1))
		}
		require.Equal(f, 1, f.permitsWaited("a"))
		require.Len(f, f.redis.PubSubChannels("*"), 3, "one of each session, and one of grants")
		withWaiters, now := costs()
		require.LessOrEqual(f, withWaiters, scripts+60*3/2)
		require.LessOrEqual(f, now, running+many+4)
		for _, lease := range leases {
			require.NoError(f, lease.Unlock())
		}
		for _, next := range waiting {
			require.NoError(f, locktest.MustHave(f, next).Unlock())
		}
		time.Sleep(10 * time.Second)
		before := f.commands.Load()
		time.Sleep(time.Hour)
		require.Equal(f, before, f.commands.Load())
		require.Zero(f, goroutines())
		require.Empty(f, f.redis.PubSubChannels("*"))
	})
}
