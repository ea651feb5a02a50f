// SPDX-License-Identifier: Apache-2.0

package multilock_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// P4: the members of a closed session are lost, and the whole with them; those of others are released.
func TestClosedSessionEndsTheWhole(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	one, other := locktest.SteadySession(t, server), locktest.SteadySession(t, server)
	mine := []forcibleLock{reentrant.New(one, "a"), fair.New(other, "b")}
	lease := mustLock(t, all(mine))
	require.Error(t, one.Close(locktest.Ended()))
	redistest.Receive(t, "the end of the lease", lease.Done())
	require.ErrorIs(t, lease.Err(), signalbox.ErrLost)
	require.ErrorIs(t, lease.Err(), signalbox.ErrClosed)
	awaitFree(t, []forcibleLock{reentrant.New(other, "a"), mine[1]}, other)
	_, err := all(mine).Lock(locktest.Context(t))
	require.ErrorIs(t, err, signalbox.ErrClosed)
	awaitFree(t, mine[1:], other)
}
