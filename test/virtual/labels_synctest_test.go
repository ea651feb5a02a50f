// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"runtime/pprof"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
)

// P7: profiles distinguish the client's goroutines from ours. Goroutines of a connection that a renewal, a
// poll or a subscription opened have no labels of ours.
func TestGoroutinesOfTheClientHaveNoLabel(t *testing.T) {
	t.Parallel()
	for _, kind := range locktest.Primitives() {
		bubble(t, func(f *fixture) {
			holder, link, closeHolder := f.session(f.T)
			defer closeHolder()
			waiter, others, closeWaiter := f.session(f.T)
			defer closeWaiter()
			lease := atOnce(f.T, kind.New(holder, "a", signalbox.WithRenewedLease(10*time.Second)))
			ctx, giveUp := context.WithCancel(f.Context())
			waits := queuedAndListening(ctx, kind.New(waiter, "a"))
			for _, l := range []*wire{link, others} {
				l.heal() // breaks every connection
			}
			time.Sleep(20 * time.Second)
			require.NoError(f, lease.Err(), "it was renewed on a new connection")
			synctest.Wait()
			var profile strings.Builder
			require.NoError(f, pprof.Lookup("goroutine").WriteTo(&profile, 1))
			require.Contains(f, profile.String(), `"signalbox":"timers"`)
			require.Contains(f, profile.String(), `"signalbox":"dispatch"`)
			readers := 0
			for stack := range strings.SplitSeq(profile.String(), "\n\n") {
				if strings.Contains(stack, "rueidis.(*pipe)") {
					require.NotContains(f, stack, "# labels:", kind.Name)
					readers++
				}
			}
			require.Positive(f, readers)
			giveUp()
			require.ErrorIs(f, (<-waits).err, context.Canceled)
		})
	}
}
