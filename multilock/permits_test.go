// SPDX-License-Identifier: Apache-2.0

package multilock_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/multilock"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/semaphore"
)

// P1, P4: permits go with locks, all or none.
func TestPermitsAreAMemberAsALockIs(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, other := locktest.SteadySession(t, server), locktest.SteadySession(t, server)
	pool, mu := semaphore.New(s, "pool", 3), reentrant.New(s, "order/42")
	free := func() int {
		n, err := pool.Available(locktest.Context(t))
		require.NoError(t, err)
		return n
	}
	both := multilock.New(pool.Permits(2), mu)
	lease, err := both.Lock(locktest.Context(t))
	require.NoError(t, err)
	require.Equal(t, 1, free())
	require.Len(t, multilock.Tokens(lease), 2)

	// Entered again it takes no further permits; beside it there are too few.
	again, err := both.Lock(lease.Enter(locktest.Context(t)))
	require.NoError(t, err)
	require.Equal(t, 1, free())
	require.NoError(t, again.Unlock())
	_, err = multilock.New(semaphore.New(other, "pool", 3).Permits(2)).TryLock(locktest.Context(t))
	require.ErrorIs(t, err, signalbox.ErrHeld)
	require.NoError(t, lease.Unlock())
	require.Equal(t, 3, free())

	// What cannot be had gives the permits back.
	held, err := reentrant.New(other, "order/42").Lock(locktest.Context(t))
	require.NoError(t, err)
	_, err = both.TryLock(locktest.Context(t))
	require.ErrorIs(t, err, signalbox.ErrHeld)
	require.Equal(t, 3, free())
	require.NoError(t, held.Unlock())
	require.ErrorIs(t, multilock.New(pool.Permits(0)).Check(), signalbox.ErrBadOption)
	twice := multilock.New(pool.Permits(1), mu, pool.Permits(1)).Check()
	require.ErrorIs(t, twice, signalbox.ErrBadOption)
	require.ErrorContains(t, twice, `"pool" is given twice`)
	_, err = multilock.New(pool.Permits(4), mu).Lock(locktest.Context(t))
	require.ErrorIs(t, err, signalbox.ErrCapacity)
}

// P10: it would wait for ever, without a word.
func TestALockerOfTooManyPermitsPanics(t *testing.T) {
	t.Parallel()
	pool := semaphore.New(locktest.SteadySession(t, redistest.Start(t)), "pool", 3)
	defer func() {
		err, _ := recover().(error)
		require.ErrorIs(t, err, signalbox.ErrCapacity)
	}()
	multilock.New(pool.Permits(4)).Locker(t.Context()).Lock()
}
