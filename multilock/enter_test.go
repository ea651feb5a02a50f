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
	"github.com/signalbox-go/signalbox/rwlock"
)

// A context that the lease was entered with carries the leases of all members: each, and all as one, are entered again
// without a round trip and with their tokens.
func TestEnteringCarriesEveryMember(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := locktest.SteadySession(t, server, signalbox.WithPolling()) // one that listens asks when it begins to whether its holds are there still
	mine := allKinds(s)
	outer := mustLock(t, all(mine))
	ctx := outer.Enter(locktest.Context(t))
	require.Zero(t, scriptsRun(server, func() {
		for i, m := range mine {
			lease, err := m.Lock(ctx)
			require.NoError(t, err)
			require.Equal(t, multilock.Tokens(outer)[i], lease.Token())
			require.NoError(t, lease.Unlock())
		}
		for _, take := range []func() (signalbox.Lease, error){
			func() (signalbox.Lease, error) { return all(mine).Lock(ctx) },
			func() (signalbox.Lease, error) { return all(mine).TryLock(ctx) },
			func() (signalbox.Lease, error) { return all(mine[1:3]).Lock(ctx) },
		} {
			lease, err := take()
			require.NoError(t, err)
			require.NoError(t, lease.Err())
			require.NoError(t, lease.Unlock())
		}
	}))
	inner, err := all(mine).Lock(ctx)
	require.NoError(t, err)
	require.Equal(t, outer.Token(), inner.Token())
	require.NoError(t, outer.Unlock())
	require.Len(t, held(t, mine), len(mine), "the inner lease keeps them")
	require.NoError(t, inner.Err())
	require.NoError(t, inner.Unlock())
	awaitFree(t, mine, s)
}

// A member that the caller already holds is entered again, and stays held when the whole is released.
func TestAMemberThatIsHeldAlreadyIsEntered(t *testing.T) {
	t.Parallel()
	s := locktest.SteadySession(t, redistest.Start(t))
	for i := range 3 {
		mine := named(s, "a", "b", "c")
		outer := mustLock(t, mine[i])
		lease, err := all(mine).Lock(outer.Enter(locktest.Context(t)))
		require.NoError(t, err)
		require.Equal(t, outer.Token(), multilock.Tokens(lease)[i])
		require.Len(t, held(t, mine), 3)
		require.NoError(t, lease.Unlock())
		require.Equal(t, []int{i}, held(t, mine))
		require.NoError(t, outer.Err())
		require.NoError(t, outer.Unlock())
	}
}

// Who reads cannot become a writer inside a whole either.
func TestAnUpgradeInsideTheWholeIsRefused(t *testing.T) {
	t.Parallel()
	s := locktest.SteadySession(t, redistest.Start(t))
	a, b := rwlock.New(s, "a"), reentrant.New(s, "b")
	lease := mustLock(t, multilock.New(a.Reader(), b))
	_, err := multilock.New(a, b).Lock(lease.Enter(locktest.Context(t)))
	require.ErrorIs(t, err, signalbox.ErrUpgrade)
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Unlock())
	awaitFree(t, []member{{a, a}, {b, b}}, s)
}
