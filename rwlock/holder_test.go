// SPDX-License-Identifier: Apache-2.0

package rwlock_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/rwlock"
)

// holders returns the holders of the lock.
func holders(t *testing.T, mu *rwlock.Lock) []signalbox.Holder {
	t.Helper()
	var all []signalbox.Holder
	for h, err := range mu.Holders(t.Context()) {
		require.NoError(t, err)
		all = append(all, h)
	}
	return all
}

func isLocked(t *testing.T, mu *rwlock.Lock) bool {
	t.Helper()
	locked, err := mu.IsLocked(t.Context())
	require.NoError(t, err)
	return locked
}

// Holders returns one entry for all readers that share a hold, and marks readers as shared, also a writer
// that was downgraded.
func TestReadersAreSharedHoldersOneForEachHold(t *testing.T) {
	t.Parallel()
	f := sharedFixture(t)
	one := rwlock.New(f.session(signalbox.WithLabel("one")), f.name)
	other := rwlock.New(f.session(signalbox.WithLabel("other")), f.name, signalbox.WithFixedLease(time.Hour))
	lease := must(t, one, write)
	require.NoError(t, one.Downgrade(t.Context(), lease))
	leases := []signalbox.Lease{lease, must(t, one, read), must(t, one, read), must(t, other, read)}
	all := holders(t, one)
	require.Len(t, all, 3)
	require.True(t, slices.IsSortedFunc(all, func(a, b signalbox.Holder) int { return a.Until.Compare(b.Until) }))
	for n, h := range all {
		require.True(t, h.Shared)
		require.Equal(t, "rwlock", h.Kind)
		require.Equal(t, []string{"one", "one", "other"}[n], h.Label)
		require.Zero(t, h.Token)
		require.Zero(t, h.Since)
	}
	require.True(t, isLocked(t, other))
	for _, lease := range leases {
		require.NoError(t, lease.Unlock())
	}
	require.Empty(t, holders(t, one))
	require.False(t, isLocked(t, other))
}

func TestAnErrorEndsTheHolders(t *testing.T) {
	t.Parallel()
	f := sharedFixture(t)
	f.server.MustDo(t, "RPUSH", f.key(), "x")
	n := 0
	for h, err := range f.lock().Holders(t.Context()) {
		require.ErrorIs(t, err, signalbox.ErrWrongKind)
		require.ErrorContains(t, err, fmt.Sprintf("holders %q", f.name))
		require.Equal(t, signalbox.Holder{}, h)
		n++
	}
	require.Equal(t, 1, n)
}

// P6: many holds are taken in portions.
func TestForceUnlockTakesTheLockFromManyReaders(t *testing.T) {
	t.Parallel()
	f := ownFixture(t)
	proxy := redistest.NewProxy(t, f.server.Addr())
	mu := f.lock(signalbox.WithFixedLease(time.Hour))
	var leases []signalbox.Lease
	for range 250 {
		leases = append(leases, must(t, mu, read))
	}
	proxy.SetMatch(locktest.RunsScript(proto.RWLockForceScript))
	require.NoError(t, rwlock.New(locktest.Session(t, proxy), f.name).ForceUnlock(t.Context()))
	require.Equal(t, 4, proxy.Requests(), "three, and one more that taught the server the script")
	for _, lease := range leases {
		redistest.Receive(t, "the loss", lease.Done())
		require.ErrorIs(t, lease.Err(), signalbox.ErrLost)
	}
	require.ErrorIs(t, mu.ForceUnlock(t.Context()), signalbox.ErrNotHeld)
	require.NoError(t, must(t, mu, write).Unlock())
}

// P5: a ForceUnlock whose reply is lost is sent again, and spares the present holder.
func TestAForceUnlockWithoutAReplyIsRepeated(t *testing.T) {
	t.Parallel()
	for _, kind := range []redistest.FaultKind{redistest.CutBeforeRequest, redistest.CutAfterRequest} {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			f := sharedFixture(t)
			proxy := redistest.NewProxy(t, f.server.Addr())
			mu := rwlock.New(locktest.Session(t, proxy), f.name)
			require.ErrorIs(t, mu.ForceUnlock(t.Context()), signalbox.ErrNotHeld)
			holder := must(t, f.lock(), write)
			waiting := f.queue(t.Context(), f.lock(), write, 1)
			proxy.SetMatch(locktest.RunsScript(proto.RWLockForceScript))
			proxy.Arm(redistest.Fault{Kind: kind})
			require.NoError(t, mu.ForceUnlock(t.Context()))
			lease := locktest.MustHave(t, waiting)
			require.ErrorIs(t, holder.Unlock(), signalbox.ErrLost)
			require.NoError(t, lease.Err())
			require.NoError(t, lease.Unlock())
		})
	}
}
