// SPDX-License-Identifier: Apache-2.0

package rwlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/rwlock"
)

// The lock in the layout of Redisson, as far as Go alone can test it. test/interop has the Java client on
// the other side.

// shared returns the lock in Redisson's layout, in a session of its own.
func (f fixture) shared(options ...signalbox.LockOption) *rwlock.Lock {
	f.Helper()
	return f.lock(append(options, signalbox.WithLayout(redisson.Layout()))...)
}

// size returns how many fields the hash of the lock has: the mode, and one for each hold.
func (f fixture) size() int {
	f.Helper()
	return locktest.Count(f, f.server, "HLEN", f.name)
}

// awaitGone waits until the lock has no key.
func (f fixture) awaitGone() {
	f.Helper()
	redistest.Await(f, "no key is left", func() bool {
		return len(f.server.Keys("{"+f.name+"}*"))+locktest.Count(f, f.server, "EXISTS", f.name) == 0
	})
}

// awaitListening waits until n sessions listen to the lock.
func (f fixture) awaitListening(n int) {
	f.Helper()
	redistest.Await(f, "listeners", func() bool { return locktest.Listeners(f, f.server, "redisson_rwlock:{"+f.name+"}") == n })
}

// P7: readers of a session share a hold, and those of another have one of their own; who counts its own time has its own.
func TestSharedReadersOfASessionShareAHold(t *testing.T) {
	t.Parallel()
	f := sharedFixture(t)
	one, other := f.shared(), f.shared()
	leases := []signalbox.Lease{must(t, one, read), must(t, one, read), must(t, one, tryRead), must(t, other, read)}
	require.Equal(t, 3, f.size(), "two holds, and the mode")
	fixed := f.shared(signalbox.WithFixedLease(time.Hour))
	leases = append(leases, must(t, fixed, read), must(t, fixed, tryRead))
	require.Equal(t, 5, f.size())
	_, err := other.TryLock(t.Context())
	require.ErrorIs(t, err, signalbox.ErrHeld)
	writer := later(t.Context(), other, write)
	f.awaitListening(1)
	beside, err := one.TryRLock(t.Context())
	require.NoError(t, err, "past a writer that waits")
	for _, lease := range append(leases, beside) {
		require.False(t, locktest.IsClosed(writer))
		require.NoError(t, lease.Err())
		require.NoError(t, lease.Unlock())
	}
	lease := locktest.MustHave(t, writer)
	_, err = one.TryRLock(t.Context())
	require.ErrorIs(t, err, signalbox.ErrHeld)
	require.NoError(t, lease.Unlock())
	f.awaitGone()
}

// P7: readers of a session share one hold when a writer is done, however many wait.
func TestSharedReadersComeInTogether(t *testing.T) {
	t.Parallel()
	f := sharedFixture(t)
	one, other := f.shared(), f.shared()
	lease := must(t, one, write)
	ctx, cancel := context.WithCancel(t.Context())
	leader := later(ctx, other, read)
	f.awaitListening(1)
	var waiting []<-chan result
	for n := range 10 {
		waiting = append(waiting, follow(t.Context(), t, other, n+2))
	}
	cancel() // the next waiter leads
	err := locktest.MustFail(t, leader)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, signalbox.ErrHeld)
	require.NoError(t, lease.Unlock())
	for _, w := range waiting {
		require.NoError(t, locktest.MustHave(t, w).Err())
	}
	require.Equal(t, 2, f.size(), "one hold, and the mode")
}

// A writer becomes a reader in one step, and readers enter.
func TestASharedWriterIsDowngraded(t *testing.T) {
	t.Parallel()
	f := sharedFixture(t)
	one, other := f.shared(), f.shared()
	lease := must(t, one, write)
	reader := later(t.Context(), other, read)
	f.awaitListening(1)
	require.NoError(t, one.Downgrade(t.Context(), lease))
	second := locktest.MustHave(t, reader)
	require.Greater(t, second.Token(), lease.Token())
	_, err := other.TryLock(t.Context())
	require.ErrorIs(t, err, signalbox.ErrHeld)
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Unlock())
	require.NoError(t, second.Err())
	require.NoError(t, second.Unlock())
	f.awaitGone()
}
