// SPDX-License-Identifier: Apache-2.0

package rwlock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/rwlock"
)

// led -> led: if a hold may not be shared further, it stays with its readers, and later readers queue for a
// new one with one ticket.
func TestReadersQueueIfAHoldMayNotBeShared(t *testing.T) {
	t.Parallel()
	f := sharedFixture(t)
	mu := f.lock()
	old := []signalbox.Lease{must(t, mu, read), must(t, mu, read)}
	writer := f.queue(t.Context(), f.lock(), write, 1)
	aged()
	late := []<-chan result{f.queue(t.Context(), mu, read, 2)}
	for n := range 5 {
		late = append(late, follow(t.Context(), t, mu, n+2))
	}
	require.Equal(t, 2, f.queued())
	for _, lease := range old {
		require.False(t, locktest.IsClosed(writer))
		require.NoError(t, lease.Err())
		require.NoError(t, lease.Unlock())
	}
	lease := locktest.MustHave(t, writer)
	require.NoError(t, lease.Unlock())
	var leases []signalbox.Lease
	for _, l := range late {
		leases = append(leases, locktest.MustHave(t, l))
	}
	for _, l := range leases {
		require.Equal(t, leases[0].Token(), l.Token())
		require.Greater(t, l.Token(), lease.Token())
		require.NoError(t, l.Unlock())
	}
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
