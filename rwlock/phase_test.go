// SPDX-License-Identifier: Apache-2.0

package rwlock_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
)

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
