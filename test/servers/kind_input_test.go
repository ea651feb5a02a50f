// SPDX-License-Identifier: Apache-2.0

package servers_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
)

// P10: a try that fails says what was tried, of which name.
func TestTryLockReturnsErrHeldWithTheNameAndTheOperation(t *testing.T) {
	t.Parallel()
	each(t, everyKind, func(f *kindFixture) {
		holder := f.must(f.against())
		lease, err := f.lock().TryLock(f.Context())
		require.ErrorIs(f, err, signalbox.ErrHeld)
		verb, named := map[string]string{locktest.Reader().Name: "read lock", locktest.Permit().Name: "acquire"}[f.Primitive.Name]
		if !named {
			verb = "lock"
		}
		require.EqualError(f, err, fmt.Sprintf("signalbox: try %s %q: the lock is held", verb, f.name))
		require.Equal(f, signalbox.Lease{}, lease)
		require.NoError(f, holder.Unlock())
	})
}

// P9: locks of different kinds keep each other out while one is held, and the tokens of a name rise over all kinds.
func TestAnotherKindsLockIsErrWrongKind(t *testing.T) {
	t.Parallel()
	locks := func(k lockKind) bool { return k.known != "" }
	each(t, locks, func(f *kindFixture) {
		for _, k := range lockKinds() {
			if !locks(k) || k.known == f.known {
				continue
			}
			other := lockOf(k.Primitive, f.session(), f.name)
			for range 2 { // the second time there is a floor
				mu := f.lock() // one that nothing is to be withdrawn for
				lease := f.must(other)
				for _, take := range []func(context.Context) (signalbox.Lease, error){mu.TryLock, mu.Lock} {
					err := second(take(f.Context()))
					require.ErrorIs(f, err, signalbox.ErrWrongKind)
					require.ErrorContains(f, err, "("+k.known+")")
				}
				forced, _ := mu.(forceUnlocker)
				require.ErrorIs(f, forced.ForceUnlock(f.Context()), signalbox.ErrWrongKind)
				require.Zero(f, f.tickets())
				require.NoError(f, lease.Err())
				require.NoError(f, lease.Unlock())
				ours := f.must(mu)
				require.Greater(f, ours.Token(), lease.Token(), "the floor is that of the name")
				require.NoError(f, ours.Unlock())
			}
		}
	})
}
