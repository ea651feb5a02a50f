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
