// SPDX-License-Identifier: Apache-2.0

package rwlock_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
)

// P9: what other programs put into the key is no hold, and removes no hold.
func TestStrangeMembersOfTheKeyAreNoHolds(t *testing.T) {
	t.Parallel()
	f := sharedFixture(t)
	mu := f.lock()
	lease := must(t, mu, write)
	f.server.MustDo(t, "ZADD", f.key(), 1, "x", 2, "", -7, strings.Repeat("y", 60))
	require.ErrorIs(t, second(f.lock().TryRLock(t.Context())), signalbox.ErrHeld)
	n := 0
	for h, err := range mu.Holders(t.Context()) {
		require.NoError(t, err)
		require.Equal(t, lease.Token(), h.Token)
		n++
	}
	require.Equal(t, 1, n)
	require.NoError(t, lease.Unlock())
	require.NoError(t, must(t, f.lock(), write).Unlock())
}
