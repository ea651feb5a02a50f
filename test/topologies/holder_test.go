// SPDX-License-Identifier: Apache-2.0

package topologies_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// Every session can ask for the holder of a lock.
func TestAHolderIsKnownToOthers(t *testing.T) {
	t.Parallel()
	everywhereOf(t, locktest.Locks(), func(f *fixture) {
		name := f.name()
		other := f.reporting(name)
		_, err := other.Holder(locktest.Context(f))
		require.ErrorIs(f, err, signalbox.ErrNotHeld)
		s := f.session()
		lease := f.mustLock(locktest.Context(f), f.kind.New(s, name))
		h, err := other.Holder(locktest.Context(f))
		require.NoError(f, err)
		require.Equal(f, f.kind.Name, h.Kind)
		require.Equal(f, s.ID(), h.Session)
		require.Equal(f, lease.Token(), h.Token)
		require.True(f, h.Until.After(h.Since))
		isLocked, err := other.IsLocked(locktest.Context(f))
		require.NoError(f, err)
		require.True(f, isLocked)
		require.NoError(f, lease.Unlock())
		_, err = other.Holder(locktest.Context(f))
		require.ErrorIs(f, err, signalbox.ErrNotHeld, "of a released lock")
		isLocked, err = other.IsLocked(locktest.Context(f))
		require.NoError(f, err)
		require.False(f, isLocked)
		require.ErrorIs(f, other.ForceUnlock(locktest.Context(f)), signalbox.ErrNotHeld)
	})
}

// P2, P3: a holder that loses its lock by force is notified by message, long before its next renewal; the
// next holder has a greater token.
func TestAForcedHolderIsNotifiedByMessage(t *testing.T) {
	t.Parallel()
	everywhereOf(t, locktest.Locks(), func(f *fixture) {
		name := f.name()
		mine, other := f.lock(name, signalbox.WithRenewedLease(24*time.Hour)), f.reporting(name)
		require.ErrorIs(f, other.ForceUnlock(locktest.Context(f)), signalbox.ErrNotHeld)
		lease := f.mustLock(locktest.Context(f), mine)
		require.NoError(f, other.ForceUnlock(locktest.Context(f)))
		redistest.Receive(f, "the end of the lease", lease.Done())
		require.ErrorIs(f, lease.Err(), signalbox.ErrLost)
		next := f.mustLock(locktest.Context(f), other)
		require.Greater(f, next.Token(), lease.Token())
		require.NoError(f, next.Unlock())
	})
}
