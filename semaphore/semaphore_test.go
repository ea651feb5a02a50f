// SPDX-License-Identifier: Apache-2.0

package semaphore_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/semaphore"
)

// P10: a request that no server could grant fails at once, and sends nothing.
func TestBadArgumentsAreErrorsAtOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server, signalbox.WithPolling())
	sem := semaphore.New(s, "a", 3)
	require.NoError(t, mustAcquire(t, sem, 1).Unlock())
	require.Empty(t, server.SentBy(func() {
		for _, n := range []int{0, -1} {
			_, err := sem.Acquire(t.Context(), n)
			require.ErrorIs(t, err, signalbox.ErrBadOption)
			_, err = sem.TryAcquire(t.Context(), n)
			require.ErrorIs(t, err, signalbox.ErrBadOption)
			require.ErrorIs(t, sem.SetCapacity(t.Context(), n), signalbox.ErrBadOption)
			require.ErrorIs(t, semaphore.New(s, "a", n).Check(), signalbox.ErrBadOption)
			_, err = semaphore.New(s, "a", n).Acquire(t.Context(), 1)
			require.ErrorIs(t, err, signalbox.ErrBadOption)
		}
		if more := int64(semaphore.MaxPermits) + 1; int64(int(more)) == more { // an int may have no more
			_, err := sem.Acquire(t.Context(), int(more))
			require.ErrorIs(t, err, signalbox.ErrCapacity)
		}
		_, err := sem.Acquire(nil, 1) //nolint:staticcheck // what is tested
		require.ErrorIs(t, err, signalbox.ErrBadOption)
		_, err = sem.Acquire(locktest.Ended(), 1)
		require.ErrorIs(t, err, context.Canceled)
	}))
}
