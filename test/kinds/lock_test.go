// SPDX-License-Identifier: Apache-2.0

package kinds_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
)

// P10: an error says what was asked of which lock.
func TestTryLockReturnsErrHeldWithTheNameAndTheOperation(t *testing.T) {
	t.Parallel()
	each(t, everyKind, func(f *fixture) {
		holder := f.must(f.against())
		lease, err := f.lock().TryLock(f.Context())
		require.ErrorIs(f, err, signalbox.ErrHeld)
		var op *signalbox.OpError
		require.ErrorAs(f, err, &op)
		require.Equal(f, "try "+f.op, op.Op)
		require.Equal(f, f.name, op.Name)
		require.EqualError(f, err, fmt.Sprintf("signalbox: try %s %q: the lock is held", f.op, f.name))
		require.Equal(f, signalbox.Lease{}, lease)
		require.NoError(f, holder.Unlock())
	})
}
