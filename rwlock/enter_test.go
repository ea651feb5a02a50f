// SPDX-License-Identifier: Apache-2.0

package rwlock_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/rwlock"
	"github.com/signalbox-go/signalbox/scripts"
)

// A reader that asks to write gets an error at once, without a command: two that waited would wait for each
// other for ever.
func TestAReaderThatAsksToWriteIsErrUpgradeAtOnce(t *testing.T) {
	t.Parallel()
	f := sharedFixture(t)
	proxy := f.proxy()
	mus := []*rwlock.Lock{f.lockAt(proxy), f.lockAt(proxy)}
	leases := []signalbox.Lease{must(t, mus[0], read), must(t, mus[1], read)}
	// A session that begins to listen asks whether its holds are there still.
	scripted, isRecheck := redistest.Commands("EVAL", "EVALSHA"), locktest.RunsScript(scripts.HoldsRenew)
	proxy.SetMatch(func(request []string) bool { return scripted(request) && !isRecheck(request) })
	proxy.ResetCount()
	for n, mu := range mus {
		ctx := leases[n].Enter(t.Context())
		for _, ctx := range []context.Context{ctx, context.WithoutCancel(ctx)} {
			for _, lock := range []lockMethod{write, tryWrite} {
				lease, err := lock(mu, ctx)
				require.ErrorIs(t, err, signalbox.ErrUpgrade)
				require.Equal(t, signalbox.Lease{}, lease)
			}
			require.ErrorIs(t, mu.Do(ctx, func(context.Context, signalbox.Lease) error {
				t.Error("a reader writes")
				return nil
			}), signalbox.ErrUpgrade)
		}
	}
	require.Zero(t, proxy.Requests())
	for _, lease := range leases {
		require.NoError(t, lease.Err())
		require.NoError(t, lease.Unlock())
	}
	require.NoError(t, must(t, mus[0], write).Unlock())
}
