// SPDX-License-Identifier: Apache-2.0

package semaphore_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/semaphore"
)

// P2: a fixed lease ends here before its permits are free there, and is not renewed.
func TestAFixedLeaseEndsBeforeItsPermitsAreFree(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	sem := semaphore.New(newSession(t, server), "a", 2, signalbox.FixedLease(steady))
	lease := mustAcquire(t, sem, 2)
	var holders []semaphore.Holder
	for h, err := range sem.Holders(t.Context()) {
		require.NoError(t, err)
		holders = append(holders, h)
	}
	ends := deadlineOf(lease)
	require.True(t, ends.Before(holders[0].Until), "it ends first: %v, %v", ends, holders[0].Until)
	within(t, "the end of the lease", lease.Done())
	require.ErrorIs(t, lease.Err(), signalbox.ErrLost)
	require.ErrorIs(t, lease.Unlock(), signalbox.ErrLost)
}

// H11: permits that ended and are released late do not raise the count.
func TestPermitsReleasedLateDoNotRaiseTheCount(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	sem := semaphore.New(newSession(t, server), "a", 3, signalbox.FixedLease(shortest))
	late := mustAcquire(t, sem, 2)
	within(t, "the end of the lease", late.Done())
	long := semaphore.New(newSession(t, server), "a", 3)
	three := mustAcquire(t, long, 3)
	require.ErrorIs(t, late.Unlock(), signalbox.ErrLost)
	require.Equal(t, 3, out(t, server))
	_, err := semaphore.New(newSession(t, server), "a", 3).TryAcquire(t.Context(), 1)
	require.ErrorIs(t, err, signalbox.ErrHeld)
	require.NoError(t, three.Unlock())
	require.ErrorIs(t, three.Unlock(), signalbox.ErrNotHeld, "once")
	require.Equal(t, 3, available(t, long))
}

// P2: a greatest hold ends the lease, and its permits come back by themselves.
func TestMaxHoldEndsALeaseOfPermits(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	sem := semaphore.New(newSession(t, server), "a", 1, signalbox.RenewedLease(steady), signalbox.MaxHold(steady+shortest))
	lease := mustAcquire(t, sem, 1)
	waiting := queue(t.Context(), t, server, semaphore.New(newSession(t, server), "a", 1), 1, 1)
	within(t, "the end of the lease", lease.Done())
	require.ErrorIs(t, lease.Err(), signalbox.ErrMaxHold)
	require.NoError(t, mustHave(t, waiting).Unlock())
}

// It is not reentrant: under a context that carries a lease it takes further permits.
func TestAcquireUnderALeaseTakesFurtherPermits(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	sem := semaphore.New(newSession(t, server), "a", 3)
	first := mustAcquire(t, sem, 1)
	ctx := first.Enter(t.Context())
	second, err := sem.Acquire(ctx, 1)
	require.NoError(t, err)
	require.Greater(t, second.Token(), first.Token())
	require.Equal(t, 2, out(t, server))
	third, err := sem.TryAcquire(ctx, 1)
	require.NoError(t, err)
	require.Equal(t, 3, out(t, server))
	require.NoError(t, first.Unlock())
	require.ErrorIs(t, context.Cause(ctx), signalbox.ErrReleased)
	require.NoError(t, second.Err())
	require.NoError(t, second.Unlock())
	require.NoError(t, third.Unlock())
	require.Zero(t, out(t, server))
}

// P4: Do gives back whatever its function does.
func TestDoGivesPermitsBackWhateverItsFunctionDoes(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	sem := semaphore.New(newSession(t, server), "a", 3)
	failed := errors.New("no paper")
	require.ErrorIs(t, sem.Do(t.Context(), 2, func(ctx context.Context, lease signalbox.Lease) error {
		require.NoError(t, ctx.Err())
		require.NoError(t, lease.Err())
		require.Equal(t, 2, out(t, server))
		return failed
	}), failed)
	require.Zero(t, out(t, server))
	require.PanicsWithValue(t, "no paper", func() {
		_ = sem.Do(t.Context(), 3, func(context.Context, signalbox.Lease) error { panic("no paper") })
	})
	require.Zero(t, out(t, server))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = sem.Do(t.Context(), 1, func(context.Context, signalbox.Lease) error {
			runtime.Goexit()
			return nil
		})
	}()
	within(t, "the end of the goroutine", ended)
	require.Zero(t, out(t, server))
	err := sem.Do(t.Context(), 4, func(context.Context, signalbox.Lease) error { return nil })
	require.ErrorIs(t, err, signalbox.ErrCapacity)
}

// P9: a semaphore and a lock of one name do not touch each other.
func TestASemaphoreAndALockShareANameWithoutTouchingEachOther(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, other := newSession(t, server), newSession(t, server)
	sem, mu := semaphore.New(s, "a", 1), fair.New(s, "a")
	permit := mustAcquire(t, sem, 1)
	lock, err := mu.Lock(t.Context())
	require.NoError(t, err)
	waitsForPermit := queue(t.Context(), t, server, semaphore.New(other, "a", 1), 1, 1)
	waitsForLock := make(chan outcome, 1)
	go func() {
		lease, err := fair.New(other, "a").Lock(t.Context())
		waitsForLock <- outcome{lease, err}
	}()
	await(t, "a place in the other line", func() bool { return integer(t, server.MustDo(t, "ZCARD", "sb:{a}:line")) == 1 })
	require.NoError(t, permit.Unlock())
	require.NoError(t, mustHave(t, waitsForPermit).Unlock())
	require.False(t, isClosed(waitsForLock))
	require.NoError(t, lock.Unlock())
	require.NoError(t, mustHave(t, waitsForLock).Unlock())
}

// Holders are told with their permits, those of all processes, page by page.
func TestHoldersAreToldWithTheirPermits(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	one := newSession(t, server, signalbox.WithLabel("one"))
	other := newSession(t, server, signalbox.WithLabel("the other"))
	sem := semaphore.New(one, "a", 1000)
	for range sem.Holders(t.Context()) {
		t.Error("nobody has any")
	}
	var leases []signalbox.Lease
	want := make(map[string]int)
	for n := range 230 {
		s, label := one, "one"
		if n%3 == 0 {
			s, label = other, "the other"
		}
		leases = append(leases, mustAcquire(t, semaphore.New(s, "a", 1000, signalbox.RenewedLease(time.Hour)), 1+n%4))
		want[label] += 1 + n%4
	}
	got, told := make(map[string]int), 0
	sent := sentBy(server, func() {
		for h, err := range sem.Holders(t.Context()) {
			require.NoError(t, err)
			require.WithinDuration(t, serverTime(t, server).Add(time.Hour), h.Until, patience)
			require.Len(t, h.Session, 22)
			got[h.Label] += h.Permits
			told++
		}
	})
	require.Equal(t, 230, told)
	require.Equal(t, want, got)
	require.Equal(t, int64(3), sent["zrange"], "a page each")
	for _, lease := range leases {
		require.NoError(t, lease.Unlock())
	}
	for _, err := range sem.Holders(endedContext()) {
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorContains(t, err, `holders "a"`)
	}
}

// P6: Close sends waiters away, waits for holders, and leaves nothing.
func TestCloseUnderLoadLeavesNoPermits(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	other := newSession(t, server)
	for round := range 6 {
		s := newSession(t, server, signalbox.WithDefaults(signalbox.RenewedLease(steady)))
		var users sync.WaitGroup
		begun := make(chan struct{}, 1000)
		use := func(sem *semaphore.Semaphore, n int) {
			for range 1000 {
				lease, err := sem.Acquire(t.Context(), n)
				if errors.Is(err, signalbox.ErrClosed) {
					return
				} else if err != nil {
					t.Error(err)
					return
				}
				select {
				case begun <- struct{}{}:
				default:
				}
				if err := givesBack(lease); err != nil && !errors.Is(err, signalbox.ErrLost) {
					t.Error(err)
				}
			}
		}
		for n := range 8 {
			users.Go(func() { use(semaphore.New(s, "a", 3), 1+n%3) })
		}
		for range 10 + 9*round {
			within(t, "some use", begun)
		}
		closesClean(t, server, s, round%2 == 0)
		users.Wait()
		require.NoError(t, mustAcquire(t, semaphore.New(other, "a", 3), 3).Unlock())
	}
}
