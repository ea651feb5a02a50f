// SPDX-License-Identifier: Apache-2.0

package rwlock_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/rwlock"
	"github.com/signalbox-go/signalbox/scripts"
)

// The Try forms acquire what is free: a reader beside readers, a writer if the lock is free.
func TestTryTakesWhatIsFree(t *testing.T) {
	t.Parallel()
	f := sharedFixture(t)
	one, other := f.lock(), f.lock()
	for range 3 {
		lease := must(t, one, tryWrite)
		for _, mu := range []*rwlock.Lock{one, other} {
			require.ErrorIs(t, second(mu.TryLock(t.Context())), signalbox.ErrHeld)
			require.ErrorIs(t, second(mu.TryRLock(t.Context())), signalbox.ErrHeld)
		}
		require.NoError(t, lease.Unlock())
		first, beside, elsewhere := must(t, one, tryRead), must(t, one, tryRead), must(t, other, tryRead)
		for _, lease := range []signalbox.Lease{first, beside, elsewhere} {
			for _, mu := range []*rwlock.Lock{one, other} {
				require.ErrorIs(t, second(mu.TryLock(t.Context())), signalbox.ErrHeld)
			}
			require.NoError(t, lease.Unlock())
		}
		require.False(t, f.isHeld())
	}
}

// P7: a writer's TryLock is not sent while the session has the lock or wants it.
func TestTryLockFailsWithoutACommandIfTheSessionKnows(t *testing.T) {
	t.Parallel()
	f := ownFixture(t)
	holder := rwlock.New(f.poller(), f.name, signalbox.WithRenewedLease(time.Hour))
	for _, take := range []lockMethod{write, read} {
		lease := must(t, holder, take)
		require.Empty(t, f.server.SentBy(func() {
			require.ErrorIs(t, second(holder.TryLock(t.Context())), signalbox.ErrHeld)
		}))
		require.NoError(t, lease.Unlock())
	}
	lease := must(t, holder, write)
	proxy := f.proxy()
	mu := f.lockAt(proxy)
	waiting := f.queue(t.Context(), mu, read, 1)
	proxy.SetMatch(locktest.RunsScript(scripts.RWLockEnter))
	proxy.ResetCount()
	require.ErrorIs(t, second(mu.TryLock(t.Context())), signalbox.ErrHeld)
	require.Zero(t, proxy.Requests())
	redistest.Await(t, "a reader that knows that a writer waits", func() bool {
		before := proxy.Requests()
		require.ErrorIs(t, second(mu.TryRLock(t.Context())), signalbox.ErrHeld)
		return proxy.Requests() == before
	})
	require.NoError(t, lease.Unlock())
	require.NoError(t, locktest.MustHave(t, waiting).Unlock())
}

// TryRLock returns ErrHeld for a writer, and never because another reader is about to enter.
func TestTryRLockIsNeverRefusedForAReader(t *testing.T) {
	t.Parallel()
	f := sharedFixture(t)
	mus := f.locks(2)
	for round := range 5 {
		var all sync.WaitGroup
		for n := range 16 {
			take := tryRead
			if n%5 == 0 {
				take = read
			}
			all.Go(func() {
				for range 5 {
					lease, err := take(mus[n%2], t.Context())
					if err != nil {
						t.Error(round, n, err)
						return
					}
					if err := lease.Unlock(); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		require.Zero(t, mus[0].InUse()+mus[1].InUse())
	}
	require.False(t, f.isHeld())
}
