// SPDX-License-Identifier: Apache-2.0

package rwlock_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
)

// P8: what hangs on one reader's lease ends with that, and with no other of its hold.
func TestUnlockOfAReaderEndsNothingOfThoseBesideIt(t *testing.T) {
	t.Parallel()
	f := sharedFixture(t)
	mu := f.lock()
	lease, beside := must(t, mu, read), must(t, mu, read)
	bound, besides := lease.Bind(t.Context()), beside.Bind(t.Context())
	require.NoError(t, lease.Unlock())
	require.ErrorIs(t, lease.Unlock(), signalbox.ErrNotHeld)
	require.ErrorIs(t, context.Cause(bound), signalbox.ErrReleased)
	require.NoError(t, besides.Err())
	require.NoError(t, beside.Err())
	require.NoError(t, beside.Unlock())
	require.ErrorIs(t, context.Cause(besides), signalbox.ErrReleased)
}
