// SPDX-License-Identifier: Apache-2.0

package topologies_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/semaphore"
)

// P1, P6: several holders have permits at the same time, never more than the capacity. A waiter for many is
// granted them when as many were released, before any later waiter.
func TestPermitsAreSharedUpToTheCapacity(t *testing.T) {
	t.Parallel()
	const capacity = 3
	everywhereOf(t, []locktest.Primitive{locktest.Permit()}, func(w *fixture) {
		name, theirs := w.name(), w.session()
		mine, other := semaphore.New(w.session(), name, capacity), semaphore.New(theirs, name, capacity)
		one, err := mine.Acquire(locktest.Context(w), 1)
		require.NoError(w, err)
		two, err := other.Acquire(locktest.Context(w), 2)
		require.NoError(w, err)
		require.Greater(w, two.Token(), one.Token())

		granted := locktest.Later(func() (signalbox.Lease, error) { return other.Acquire(locktest.Context(w), 2) })
		queued := func(what string, n int64) {
			redistest.Await(w, what, func() bool {
				line, err := w.admin.Do(locktest.Context(w), w.admin.B().Zcard().Key(w.kind.Queue(name)).Build()).AsInt64()
				require.NoError(w, err)
				return line == n
			})
		}
		queued("a waiter in the queue", 1)
		require.NoError(w, one.Unlock())
		_, err = mine.TryAcquire(locktest.Context(w), 1)
		require.ErrorIs(w, err, signalbox.ErrHeld, "one is free, but a waiter for two is before it")
		require.NoError(w, two.Unlock())
		next := locktest.MustHave(w, granted)
		queued("that it left its ticket", 0) // it was handed permits inside its session
		last, err := mine.TryAcquire(locktest.Context(w), 1)
		require.NoError(w, err)
		free, err := mine.Available(locktest.Context(w))
		require.NoError(w, err)
		require.Zero(w, free)
		require.NoError(w, next.Unlock())
		require.NoError(w, last.Unlock())
		free, err = mine.Available(locktest.Context(w))
		require.NoError(w, err)
		require.Equal(w, capacity, free)
	})
}
