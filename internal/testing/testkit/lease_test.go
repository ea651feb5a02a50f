// SPDX-License-Identifier: Apache-2.0

package testkit_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/testkit"
)

func TestAGrantEndsByItsLastUnlock(t *testing.T) {
	t.Parallel()
	lock, released := testkit.NewFakeLock("a"), 0
	grant, lease := lock.Grant(7, func() { released++ })
	require.EqualValues(t, 7, lease.Token())
	require.NoError(t, lease.Err())
	require.True(t, lease.Deadline().After(time.Now().AddDate(40, 0, 0)))

	inner, carried, err := lock.Enter(lease.Enter(t.Context()))
	require.NoError(t, err)
	require.True(t, carried)
	require.NoError(t, lease.Unlock())
	require.Zero(t, released)
	require.NoError(t, inner.Err())
	require.NoError(t, inner.Unlock())
	require.Equal(t, 1, released)
	require.ErrorIs(t, inner.Err(), signalbox.ErrReleased)
	require.ErrorIs(t, inner.Unlock(), signalbox.ErrNotHeld)
	require.False(t, grant.Lose())
}

func TestALostGrantIsNotReleased(t *testing.T) {
	t.Parallel()
	lock := testkit.NewFakeLock("a")
	grant, lease := lock.Grant(7, func() { t.Error("it was lost") })
	bound := lease.Bind(t.Context())
	require.True(t, grant.Lose())
	require.False(t, grant.Lose())
	<-lease.Done()
	<-bound.Done()
	require.ErrorIs(t, context.Cause(bound), signalbox.ErrLost)
	require.ErrorIs(t, lease.Unlock(), signalbox.ErrLost)
	_, carried, err := lock.Enter(lease.Enter(t.Context()))
	require.True(t, carried)
	require.ErrorIs(t, err, signalbox.ErrLost)
}

func TestOnlyALockRecognisesItsLeases(t *testing.T) {
	t.Parallel()
	one, other := testkit.NewFakeLock("a"), testkit.NewFakeLock("a")
	_, lease := one.Grant(1, func() {})
	_, carried, err := other.Enter(lease.Enter(t.Context()))
	require.NoError(t, err)
	require.False(t, carried)
	require.NoError(t, lease.Unlock())
}
