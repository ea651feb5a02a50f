// SPDX-License-Identifier: Apache-2.0

package rwlock_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

// Order: a writer waits for the readers that were there before it, and for no others.
func TestAWriterWaitsForOnePhaseOfReaders(t *testing.T) {
	t.Parallel()
	f := sharedFixture(t)
	mus := f.locks(5)
	readers := []signalbox.Lease{must(t, mus[0], read), must(t, mus[1], read)}
	writer := f.queue(t.Context(), mus[2], write, 1)
	late := []<-chan result{f.queue(t.Context(), mus[3], read, 2), f.queue(t.Context(), mus[4], read, 3)}
	for _, lease := range readers {
		require.False(t, locktest.IsClosed(writer))
		require.NoError(t, lease.Unlock())
	}
	lease := locktest.MustHave(t, writer)
	for _, l := range late {
		require.False(t, locktest.IsClosed(l), "beside a writer")
	}
	require.NoError(t, lease.Unlock())
	for _, l := range late {
		require.NoError(t, locktest.MustHave(t, l).Unlock())
	}
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

// P6: if the waiting writer gives up, a message admits the readers behind it beside those that hold the
// lock.
func TestReadersEnterWhenTheWaitingWriterGivesUp(t *testing.T) {
	t.Parallel()
	f := ownFixture(t)
	proxy := f.proxy()
	holder, writer, mu := f.lock(), f.lock(), f.lockAt(proxy)
	proxy.SetMatch(locktest.RunsScript(scripts.RWLockPoll))
	reader := must(t, holder, read)
	redistest.Await(t, "a shared hold that a message announced, and no poll", func() bool {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		waiting := f.queue(ctx, writer, write, 1)
		late := f.queue(t.Context(), mu, read, 2)
		f.awaitChannels("grants", 2)
		before := proxy.Requests()
		cancel()
		require.ErrorIs(t, locktest.MustFail(t, waiting), context.Canceled)
		lease := locktest.MustHave(t, late)
		quick := proxy.Requests() == before
		require.NoError(t, lease.Unlock())
		require.NoError(t, reader.Err())
		return quick
	})
	require.NoError(t, reader.Unlock())
}

// Order: a writer that does not wait closes nothing, and leaves no ticket.
func TestATryLockThatFailsClosesNothing(t *testing.T) {
	t.Parallel()
	f := sharedFixture(t)
	mus := f.locks(6)
	leases := []signalbox.Lease{must(t, mus[0], read)}
	for _, mu := range mus[1:] {
		for range 10 {
			require.ErrorIs(t, second(mus[5].TryLock(t.Context())), signalbox.ErrHeld)
		}
		if mu != mus[5] {
			leases = append(leases, must(t, mu, tryRead))
		}
		require.Zero(t, f.queued())
	}
	for _, lease := range leases {
		require.NoError(t, lease.Unlock())
	}
	require.NoError(t, must(t, mus[5], tryWrite).Unlock())
}
