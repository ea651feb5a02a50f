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
	everywhereOf(t, locktest.Locks(), func(w *fixture) {
		name := w.name()
		other := w.reporting(name)
		_, err := other.Holder(locktest.Context(w))
		require.ErrorIs(w, err, signalbox.ErrNotHeld)
		s := w.session()
		lease := w.mustLock(locktest.Context(w), w.kind.New(s, name))
		h, err := other.Holder(locktest.Context(w))
		require.NoError(w, err)
		require.Equal(w, w.kind.Name, h.Kind)
		require.Equal(w, s.ID(), h.Session)
		require.Equal(w, lease.Token(), h.Token)
		require.True(w, h.Until.After(h.Since))
		isLocked, err := other.IsLocked(locktest.Context(w))
		require.NoError(w, err)
		require.True(w, isLocked)
		require.NoError(w, lease.Unlock())
		_, err = other.Holder(locktest.Context(w))
		require.ErrorIs(w, err, signalbox.ErrNotHeld, "of a released lock")
		isLocked, err = other.IsLocked(locktest.Context(w))
		require.NoError(w, err)
		require.False(w, isLocked)
		require.ErrorIs(w, other.ForceUnlock(locktest.Context(w)), signalbox.ErrNotHeld)
	})
}

// P2, P3: a holder that loses its lock by force is notified by message, long before its next renewal; the
// next holder has a greater token.
func TestAForcedHolderIsNotifiedByMessage(t *testing.T) {
	t.Parallel()
	everywhereOf(t, locktest.Locks(), func(w *fixture) {
		name := w.name()
		mine, other := w.lock(name, signalbox.WithRenewedLease(24*time.Hour)), w.reporting(name)
		require.ErrorIs(w, other.ForceUnlock(locktest.Context(w)), signalbox.ErrNotHeld)
		lease := w.mustLock(locktest.Context(w), mine)
		require.NoError(w, other.ForceUnlock(locktest.Context(w)))
		redistest.Receive(w, "the end of the lease", lease.Done())
		require.ErrorIs(w, lease.Err(), signalbox.ErrLost)
		next := w.mustLock(locktest.Context(w), other)
		require.Greater(w, next.Token(), lease.Token())
		require.NoError(w, next.Unlock())
	})
}
