// SPDX-License-Identifier: Apache-2.0

package rwlock_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/rwlock"
)

// P10: every error says what was asked of which lock.
func TestErrorsNameTheOperationAndTheLock(t *testing.T) {
	t.Parallel()
	f := sharedFixture(t)
	holder := must(t, f.lock(), write)
	mu := f.lock()
	var none signalbox.Lease
	nothing := func(context.Context, signalbox.Lease) error { return nil }
	for op, errs := range map[string][]error{
		"try lock":      {second(mu.TryLock(t.Context()))},
		"try read lock": {second(mu.TryRLock(t.Context()))},
		"lock":          {second(mu.Lock(locktest.Ended())), mu.Do(locktest.Ended(), nothing), locktest.PanicOf(mu.Locker(locktest.Ended()).Lock)},
		"read lock":     {second(mu.RLock(locktest.Ended())), mu.RDo(locktest.Ended(), nothing), locktest.PanicOf(mu.RLocker(locktest.Ended()).Lock)},
		"downgrade":     {mu.Downgrade(t.Context(), none)},
		"force unlock":  {f.of("b").lock().ForceUnlock(t.Context())},
	} {
		for _, err := range errs {
			var of *signalbox.OpError
			require.ErrorAs(t, err, &of, op)
			require.Equal(t, op, of.Op)
			if op != "force unlock" {
				require.Equal(t, f.name, of.Name)
			}
		}
	}
	require.EqualError(t, second(mu.TryRLock(t.Context())), fmt.Sprintf("signalbox: try read lock %q: the lock is held", f.name))
	require.NoError(t, holder.Unlock())
}

// A reader that asks to write gets an error at once, without a command: two that waited would wait for each
// other for ever.
func TestAReaderThatAsksToWriteIsErrUpgradeAtOnce(t *testing.T) {
	t.Parallel()
	f := ownFixture(t)
	long := []signalbox.LockOption{signalbox.WithRenewedLease(time.Hour), signalbox.WithFirstLease(time.Hour)}
	mus := []*rwlock.Lock{rwlock.New(f.poller(), f.name, long...), rwlock.New(f.poller(), f.name, long...)}
	leases := []signalbox.Lease{must(t, mus[0], read), must(t, mus[1], read)}
	require.Empty(t, f.server.SentBy(func() {
		for n, mu := range mus {
			ctx := leases[n].Enter(t.Context())
			for _, ctx := range []context.Context{ctx, context.WithoutCancel(ctx)} {
				for _, lock := range []lockMethod{write, tryWrite} {
					lease, err := lock(mu, ctx)
					require.ErrorIs(t, err, signalbox.ErrUpgrade)
					require.Equal(t, signalbox.Lease{}, lease)
				}
				require.ErrorIs(t, mu.Do(ctx, func(context.Context, signalbox.Lease) error {
					t.Error("a reader writes")
					return nil
				}), signalbox.ErrUpgrade)
			}
		}
	}))
	for _, lease := range leases {
		require.NoError(t, lease.Err())
		require.NoError(t, lease.Unlock())
	}
	require.NoError(t, must(t, mus[0], write).Unlock())
}

// Terms: readers whose holds are not renewed alike have holds of their own.
func TestReadersOfOtherTermsHaveHoldsOfTheirOwn(t *testing.T) {
	t.Parallel()
	f := sharedFixture(t)
	s := f.session()
	var leases []signalbox.Lease
	for n, options := range [][]signalbox.LockOption{
		nil,
		{signalbox.WithRenewedLease(time.Minute)},
		{signalbox.WithRenewedLease(time.Hour)},
		{signalbox.WithFixedLease(time.Minute)},
		{signalbox.WithFixedLease(time.Minute)},
		{signalbox.WithMaxHold(time.Minute)},
		{signalbox.WithMaxHold(time.Minute)},
	} {
		leases = append(leases, must(t, rwlock.New(s, f.name, options...), []lockMethod{read, tryRead}[n%2]))
		require.Len(t, f.holds(), n+1)
	}
	again := must(t, rwlock.New(s, f.name, signalbox.WithRenewedLease(time.Minute)), read)
	require.Len(t, f.holds(), len(leases), "readers of one lease share")
	require.NoError(t, again.Unlock())
	writer := f.queue(t.Context(), f.lock(), write, 1)
	for _, lease := range leases {
		require.False(t, locktest.IsClosed(writer))
		require.NoError(t, lease.Unlock())
	}
	require.NoError(t, locktest.MustHave(t, writer).Unlock())
}

// Order: readers wait for one writer: all that wait when it is done enter together, before the next writer.
func TestWaitingReadersEnterTogetherBeforeTheNextWriter(t *testing.T) {
	t.Parallel()
	f := sharedFixture(t)
	mus := f.locks(6)
	lease := must(t, mus[0], write)
	for range 3 {
		first := f.queue(t.Context(), mus[1], read, 1)
		writer := f.queue(t.Context(), mus[2], write, 2)
		readers := []<-chan result{
			first, f.queue(t.Context(), mus[3], read, 3), follow(t.Context(), t, mus[3], 2),
			f.queue(t.Context(), mus[4], read, 4),
		}
		next := f.queue(t.Context(), mus[5], write, 5)
		require.NoError(t, lease.Unlock())
		var leases []signalbox.Lease
		for _, r := range readers {
			leases = append(leases, locktest.MustHave(t, r))
		}
		for _, reader := range leases {
			require.False(t, locktest.IsClosed(writer))
			require.NoError(t, reader.Err())
			require.NoError(t, reader.Unlock())
		}
		lease = locktest.MustHave(t, writer)
		require.False(t, locktest.IsClosed(next))
		require.NoError(t, lease.Unlock())
		lease = locktest.MustHave(t, next)
	}
	require.NoError(t, lease.Unlock())
}

// Order: a waiting writer keeps later readers out, in its own session, in the session of readers that hold
// the lock, and elsewhere.
func TestALateReaderDoesNotPassAWriterThatWaits(t *testing.T) {
	t.Parallel()
	f := sharedFixture(t)
	mus := f.locks(3)
	reader := must(t, mus[0], read)
	writer := f.queue(t.Context(), mus[1], write, 1)
	aged() // those that enter until then belong to the phase
	var late []<-chan result
	for n, mu := range mus {
		require.ErrorIs(t, second(mu.TryRLock(t.Context())), signalbox.ErrHeld)
		late = append(late, f.queue(t.Context(), mu, read, n+2))
	}
	require.NoError(t, reader.Err())
	require.NoError(t, reader.Unlock())
	lease := locktest.MustHave(t, writer)
	for _, l := range late {
		require.False(t, locktest.IsClosed(l))
	}
	require.NoError(t, lease.Unlock())
	for _, l := range late {
		require.NoError(t, locktest.MustHave(t, l).Unlock())
	}
}
