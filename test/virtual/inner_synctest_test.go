// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/timers"
)

// P2: a Do inside another one of the same lock reports by itself that its work was not protected to
// its end: here because the host was suspended, which only the wall clock shows.
func TestAnInnerDoReportsALostLease(t *testing.T) { //nolint:paralleltest // sets the clock of the process
	for _, c := range []struct {
		option    signalbox.LockOption
		suspended time.Duration
		cause     error
	}{
		{signalbox.WithRenewedLease(10 * time.Second), time.Minute, signalbox.ErrLost},
		{signalbox.WithFixedLease(10 * time.Second), time.Minute, signalbox.ErrLost},
		{signalbox.WithMaxHold(10 * time.Second), time.Minute, signalbox.ErrMaxHold},
	} {
		for _, kind := range append(locktest.Locks(), locktest.RedissonReentrant()) {
			bubbleOfUsers(t, func(f *fixture) {
				defer timers.Skew(0)
				s := f.user().Session
				mu := kind.New(s, "a", c.option)
				var inner error
				outer := mu.Do(f.Context(), func(ctx context.Context, _ signalbox.Lease) error {
					inner = mu.Do(ctx, func(context.Context, signalbox.Lease) error {
						timers.Skew(c.suspended)
						return nil
					})
					return nil
				})
				require.ErrorIs(f, inner, c.cause, kind.Name)
				require.ErrorIs(f, outer, c.cause, kind.Name)
				require.NoError(f, mu.Do(f.Context(), func(context.Context, signalbox.Lease) error { return nil }))
			})
		}
	}
}

// P2: so does the Unlock of a reader that shares its hold with others.
func TestAReaderBesideOthersReportsALostLease(t *testing.T) { //nolint:paralleltest // sets the clock of the process
	bubbleOfUsers(t, func(f *fixture) {
		defer timers.Skew(0)
		s := f.user().Session
		mu := locktest.Reader().New(s, "a")
		first, second := atOnce(f.T, mu), atOnce(f.T, mu)
		timers.Skew(time.Minute)
		require.ErrorIs(f, first.Unlock(), signalbox.ErrLost)
		require.ErrorIs(f, second.Unlock(), signalbox.ErrLost)
	})
}
