// SPDX-License-Identifier: Apache-2.0

package rwlock_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/rwlock"
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
