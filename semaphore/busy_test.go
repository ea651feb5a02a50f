// SPDX-License-Identifier: Apache-2.0

package semaphore_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/semaphore"
)

// A request for more permits than the capacity is refused as that, also while others wait in the session,
// which come before every TryAcquire: otherwise a caller that tries again and again would never learn it.
func TestATryForMoreThanThereAreIsErrCapacityThoughOthersWait(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server)
	sem := semaphore.New(s, "a", 3)
	held := mustAcquire(t, sem, 3)
	waiting := queueFirst(t.Context(), t, server, sem)
	_, err := sem.TryAcquire(t.Context(), 4)
	require.ErrorIs(t, err, signalbox.ErrCapacity)
	require.NotErrorIs(t, err, signalbox.ErrHeld)
	require.ErrorContains(t, err, "there are 3 permits")
	_, err = semaphore.New(s, "a", 5).TryAcquire(t.Context(), 4)
	require.ErrorIs(t, err, signalbox.ErrHeld, "New got a greater capacity, for which no call has asked the server")
	require.NoError(t, sem.SetCapacity(t.Context(), 4))
	require.NoError(t, locktest.MustHave(t, waiting).Unlock())
	waiting = queue(t.Context(), t, server, sem, 4, 1)
	_, err = sem.TryAcquire(t.Context(), 4)
	require.ErrorIs(t, err, signalbox.ErrHeld, "the capacity is greater by now than New's")
	require.NoError(t, held.Unlock())
	require.NoError(t, locktest.MustHave(t, waiting).Unlock())
}
