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
	everywhereOf(t, []locktest.Primitive{locktest.Permit()}, func(f *fixture) {
		name, theirs := f.name(), f.session()
		mine, other := semaphore.New(f.session(), name, capacity), semaphore.New(theirs, name, capacity)
		one, err := mine.Acquire(locktest.Context(f), 1)
		require.NoError(f, err)
		two, err := other.Acquire(locktest.Context(f), 2)
		require.NoError(f, err)
		require.Greater(f, two.Token(), one.Token())

		granted := locktest.Later(func() (signalbox.Lease, error) { return other.Acquire(locktest.Context(f), 2) })
		queued := func(what string, n int64) {
			redistest.Await(f, what, func() bool {
				line, err := f.admin.Do(locktest.Context(f), f.admin.B().Zcard().Key(f.kind.Queue(name)).Build()).AsInt64()
				require.NoError(f, err)
				return line == n
			})
		}
		queued("a waiter in the queue", 1)
		require.NoError(f, one.Unlock())
		_, err = mine.TryAcquire(locktest.Context(f), 1)
		require.ErrorIs(f, err, signalbox.ErrHeld, "one is free, but a waiter for two is before it")
		require.NoError(f, two.Unlock())
		next := locktest.MustHave(f, granted)
		queued("that it left its ticket", 0) // it was handed permits inside its session
		last, err := mine.TryAcquire(locktest.Context(f), 1)
		require.NoError(f, err)
		free, err := mine.Available(locktest.Context(f))
		require.NoError(f, err)
		require.Zero(f, free)
		require.NoError(f, next.Unlock())
		require.NoError(f, last.Unlock())
		free, err = mine.Available(locktest.Context(f))
		require.NoError(f, err)
		require.Equal(f, capacity, free)
	})
}
