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
func permitsFree(w *fixture, sem *semaphore.Semaphore) int {
	w.Helper()
	n, err := sem.Available(w.Context())
	require.NoError(w, err)
	return n
}

// P2: permits are renewed as long as they are held, and the lease never outlasts them on the server.
func TestPermitsAreRenewedAsLongAsTheyAreHeld(t *testing.T) {
	t.Parallel()
	eachLayout(t, func(w *fixture, options []signalbox.LockOption) {
		there := semaphore.New(w.user().Session, "a", 2, options...)
		lease := mustAcquire(w, semaphore.New(w.user().Session, "a", 2, append(options, signalbox.WithRenewedLease(6*time.Second))...), 2)
		for range 600 {
			time.Sleep(time.Second)
			require.NoError(w, lease.Err())
			require.Zero(w, permitsFree(w, there))
			if options == nil {
				require.True(w, lease.Deadline().Before(w.firstEnd("a")))
			}
		}
		require.NoError(w, lease.Unlock())
		require.Equal(w, 2, permitsFree(w, there))
	})
}

// P1, P2, P6: a lease that is not renewed ends before its permits are free. They go to a waiter by
// themselves, and a late release adds none.
func TestPermitsThatAreNotRenewedComeBackAfterTheirLease(t *testing.T) {
	t.Parallel()
	const life = 10 * time.Second
	eachLayout(t, func(w *fixture, options []signalbox.LockOption) {
		holder, there := w.user(), semaphore.New(w.user().Session, "a", 2, options...)
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
			lease := mustAcquire(w, semaphore.New(holder.Session, "a", 2, append(c.options, options...)...), 2)
			waiting := acquiring(w.Context(), there, 1)
			if c.crashes {
				holder.goSilent()
			}
			redistest.Receive(w, "the end of the lease", lease.Done())
			require.ErrorIs(w, lease.Err(), c.why)
			require.WithinRange(w, time.Now(), began.Add(lasts*9/10), began.Add(lasts))
			require.Zero(w, permitsFree(w, there), "it ends here first")
			next := locktest.MustHave(w, waiting)
			require.WithinRange(w, time.Now(), began.Add(lasts*9/10), began.Add(lasts+time.Second))
			require.Greater(w, next.Token(), lease.Token())
			holder.heal()
			require.ErrorIs(w, lease.Unlock(), c.why)
			time.Sleep(time.Second)
			require.Equal(w, 1, permitsFree(w, there))
			require.NoError(w, next.Unlock())
			require.Equal(w, 2, permitsFree(w, there))
		}
	})
}

// P2, P8: permits that the server lost are reported by the next renewal, which creates none; nor does the
// release. They are also reported when parts of them are released.
func TestLostPermitsAreReportedByTheNextRenewal(t *testing.T) {
	t.Parallel()
	const life = 9 * time.Second
	eachLayout(t, func(w *fixture, options []signalbox.LockOption) {
		sem := semaphore.New(w.user().Session, "a", 3, append(options, signalbox.WithRenewedLease(life))...)
		lease, parts := mustAcquire(w, sem, 1), sem.Weighted(w.Context())
		var losses []error
		parts.OnLost(func(err error) { losses = append(losses, err) })
		require.NoError(w, parts.Acquire(w.Context(), 2))
		w.redis.FlushAll()
		began := time.Now()
		redistest.Receive(w, "the end of the lease", lease.Done())
		require.LessOrEqual(w, time.Since(began), life/3)
		require.ErrorIs(w, lease.Unlock(), signalbox.ErrLost)
		parts.Release(1)
		parts.Release(1)
		require.Len(w, losses, 2)
		require.ErrorIs(w, losses[0], signalbox.ErrLost)
		require.ErrorIs(w, losses[1], signalbox.ErrLost)
		require.NoError(w, mustAcquire(w, sem, 3).Unlock())
		require.Equal(w, 3, permitsFree(w, sem))
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
			bubbleOfUsers(t, func(w *fixture) {
				sem := semaphore.New(w.user().Session, "a", 2, option)
				parts := sem.Weighted(w.Context())
				require.NoError(w, parts.Acquire(w.Context(), 2))
				time.Sleep(15 * time.Second)
				ends := w.firstEnd("a")
				parts.Release(1)
				require.WithinDuration(w, ends, w.firstEnd("a"), time.Millisecond)
				parts.Release(1)
			})
		})
	}
}

// P6: a waiter that no message reaches, because it is lost or because the session polls, has the permits about a second
// later.
func TestWaiterFindsPermitsByAPoll(t *testing.T) {
	t.Parallel()
	eachLayout(t, func(w *fixture, options []signalbox.LockOption) {
		for _, unsubscribed := range []queueUser{w.user(), w.user(signalbox.WithPolling())} {
			held := mustAcquire(w, semaphore.New(w.user().Session, "a", 3, options...), 3)
			waiting := acquiring(w.Context(), semaphore.New(unsubscribed.Session, "a", 3, options...), 1)
			time.Sleep(5 * time.Second)
			unsubscribed.losesMessages.Store(true)
			require.NoError(w, held.Unlock())
			released := time.Now()
			lease := locktest.MustHave(w, waiting)
			require.LessOrEqual(w, time.Since(released), 1500*time.Millisecond)
			require.NoError(w, lease.Unlock())
		}
	})
}

// P6: the ticket of a waiter that crashed keeps those behind it out until its heartbeats are missed, for seconds.
func TestPermitTicketOfACrashedWaiterEnds(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		crashes := w.user()
		held := mustAcquire(w, semaphore.New(w.user().Session, "a", 2), 2)
		_ = acquiring(w.Context(), semaphore.New(crashes.Session, "a", 2), 2)
		behind := acquiring(w.Context(), semaphore.New(w.user().Session, "a", 2), 1)
		time.Sleep(time.Minute)
		crashes.goSilent()
		require.NoError(w, held.Unlock())
		released := time.Now()
		require.NoError(w, locktest.MustHave(w, behind).Unlock())
		require.LessOrEqual(w, time.Since(released), 5*time.Second)
	})
}

// P6: Close ends a wait for more permits than there are.
func TestCloseEndsAWeightedWaitForMoreThanThereAre(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		s := w.user()
		parts := semaphore.New(s.Session, "a", 2).Weighted(w.Context())
		doomed := w.later(func() error { return parts.Acquire(context.Background(), 3) })
		require.NoError(w, parts.Acquire(w.Context(), 2))
		parts.Release(2)
		require.Empty(w, doomed)
		require.NoError(w, s.Close(w.Context()))
		require.ErrorIs(w, redistest.Receive(w, "the end of the wait", doomed), signalbox.ErrClosed)
	})
}

// P7: permits that are held cost no goroutine each, and those that are waited for one ticket, one subscription, and a poll a
// second together; when all are back a session does nothing.
func TestManyPermitsCostWhatOneDoes(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		const many = 100
		s, other := w.user(), w.user()
		sem := semaphore.New(s.Session, "a", many)
		leases := []signalbox.Lease{mustAcquire(w, sem, 1)}
		costs := func() (scripts, running int) {
			time.Sleep(time.Minute)
			before := w.scripts.Load()
			time.Sleep(time.Minute)
			return int(w.scripts.Load() - before), goroutines()
		}
		_, running := costs()
		for range many - 1 {
			leases = append(leases, mustAcquire(w, sem, 1))
		}
		scripts, now := costs()
		require.LessOrEqual(w, now, running+1)
		var waiting []<-chan locktest.Result[signalbox.Lease]
		for range many {
			waiting = append(waiting, acquiring(w.Context(), semaphore.New(other.Session, "a", many), 1))
		}
		require.Equal(w, 1, w.permitsWaited("a"))
		require.Len(w, w.redis.PubSubChannels("*"), 3, "one of each session, and one of grants")
		withWaiters, now := costs()
		require.LessOrEqual(w, withWaiters, scripts+60*3/2)
		require.LessOrEqual(w, now, running+many+4)
		for _, lease := range leases {
			require.NoError(w, lease.Unlock())
		}
		for _, next := range waiting {
			require.NoError(w, locktest.MustHave(w, next).Unlock())
		}
		time.Sleep(10 * time.Second)
		before := w.commands.Load()
		time.Sleep(time.Hour)
		require.Equal(w, before, w.commands.Load())
		require.Zero(w, goroutines())
		require.Empty(w, w.redis.PubSubChannels("*"))
	})
}
