// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/reentrant"
)

// P10: a release that is denied is repeated for as long as the hold lasts: the lock is free soon after the right is given.
func TestDeniedReleaseIsRepeatedForAsLongAsTheLeaseLasts(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		first, _, closeFirst := f.session(f.T)
		defer closeFirst()
		second, _, closeSecond := f.session(f.T)
		defer closeSecond()
		held := atOnce(f.T, reentrant.New(first, "a"))
		next := queuedAndListening(f.Context(), reentrant.New(second, "a", signalbox.WithRenewedLease(10*time.Minute)))
		require.NoError(f, held.Unlock())
		lease := (<-next).lease
		time.Sleep(4 * time.Minute) // in which it is renewed
		var tries atomic.Int64
		f.redis.Server().SetPreHook(func(peer *server.Peer, command string, _ ...string) bool {
			if strings.HasPrefix(command, "EVAL") {
				tries.Add(1)
			}
			peer.WriteError("NOPERM this user has no permissions to run the 'evalsha' command")
			return true
		})
		require.ErrorIs(f, lease.Unlock(), signalbox.ErrDenied)
		time.Sleep(time.Minute)
		require.InDelta(f, 60, tries.Load(), 10, "once a second, after a few that come sooner")
		f.redis.SetError("")
		time.Sleep(2 * time.Second)
		again, err := reentrant.New(first, "a").TryLock(f.Context())
		require.NoError(f, err)
		require.NoError(f, again.Unlock())
	})
}
