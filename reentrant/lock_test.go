// SPDX-License-Identifier: Apache-2.0

package reentrant_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// A call without the lease's context says that its own session has the lock, and how the holder enters it again.
func TestALockThatTheSessionHoldsIsSaidToBe(t *testing.T) {
	t.Parallel()
	s := locktest.SteadySession(t, redistest.Start(t))
	mu := reentrant.New(s, "a")
	lease := locktest.Must(t, mu.Lock)
	_, err := mu.TryLock(t.Context())
	require.ErrorIs(t, err, signalbox.ErrHeld)
	require.ErrorContains(t, err, "by this session; its holder enters it again by the context of Lease.Enter")
	require.NoError(t, lease.Unlock())
}
