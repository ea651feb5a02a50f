// SPDX-License-Identifier: Apache-2.0

package rwlock_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// Goroutines that share an RLocker exclude each other, those with one each read beside each other.
func TestAnRLockerReadsBesideOthersButNotBesideItself(t *testing.T) {
	t.Parallel()
	f := sharedFixture(t)
	mu := f.lock()
	one, other := mu.RLocker(t.Context()), mu.RLocker(t.Context())
	one.Lock()
	other.Lock() // would not return
	again := make(chan struct{})
	go func() {
		one.Lock()
		close(again)
	}()
	require.ErrorIs(t, second(f.lock().TryLock(t.Context())), signalbox.ErrHeld)
	require.False(t, locktest.IsClosed(again))
	one.Unlock()
	redistest.Receive(t, "the next of the goroutines that share it", again)
	one.Unlock()
	other.Unlock()
	require.False(t, f.isHeld())
}

// A Locker ignores carried leases: it waits, also for the reader or writer that its context names.
func TestALockerLeavesCarriedLeasesAside(t *testing.T) {
	t.Parallel()
	f := sharedFixture(t)
	mu := f.lock()
	lease := must(t, mu, read)
	locker := mu.Locker(lease.Enter(t.Context()))
	locked := make(chan error, 1)
	go func() { locked <- locktest.PanicOf(locker.Lock) }()
	redistest.Await(t, "a ticket in the queue, and no ErrUpgrade", func() bool { return f.queued() == 1 })
	_ = lease.Unlock() // and with it the Locker's context ends
	if redistest.Receive(t, "the end of the Locker", locked) == nil {
		locker.Unlock()
	}
	f.awaitFree()
}
