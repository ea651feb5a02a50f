// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// The session's own tickets say how many goroutines wait for them, and other sessions' do not.
func TestWaiters_OwnSession_CountsGoroutines(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		holding, _, closeHolding := f.session(f.T)
		defer closeHolding()
		s, _, closeAll := f.session(f.T)
		defer closeAll()
		held := atOnce(f.T, reentrant.New(holding, "a"))
		ctx, cancel := context.WithCancel(f.Context())
		var waiting []<-chan lockResult
		for _, lock := range []locktest.Lock{
			reentrant.New(s, "a"), reentrant.New(s, "a"), reentrant.New(s, "a"), // one ticket
			fair.New(s, "a"), fair.New(s, "a"), // one each
			reentrant.New(s, "a", signalbox.WithRenewedLease(time.Minute)), reentrant.New(s, "a", signalbox.WithRenewedLease(time.Minute)),
		} {
			waiting = append(waiting, queued(ctx, lock))
			time.Sleep(time.Millisecond)
		}
		counts := func(s *signalbox.Session) (counts []int) {
			for waiter, err := range fair.New(s, "a").Waiters(f.Context()) {
				require.NoError(f, err)
				counts = append(counts, waiter.Goroutines)
			}
			return counts
		}
		require.Equal(f, []int{3, 1, 1, 2}, counts(s))
		require.Equal(f, []int{0, 0, 0, 0}, counts(holding))
		cancel()
		for _, waiter := range waiting {
			require.ErrorIs(f, (<-waiter).err, context.Canceled)
		}
		require.NoError(f, held.Unlock())
	})
}
