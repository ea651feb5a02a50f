// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/reentrant"
)

// A wait for a lock that its own session holds says so, and how the holder enters it again.
func TestAWaitForALockOfItsOwnSessionSaysSo(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		s, _, end := f.session(f.T)
		defer end()
		mu := reentrant.New(s, "a")
		lease, err := mu.Lock(f.Context())
		require.NoError(f, err)
		ctx, cancel := context.WithTimeout(f.Context(), time.Second)
		defer cancel()
		_, err = mu.Lock(ctx)
		require.ErrorIs(f, err, signalbox.ErrHeld)
		require.ErrorIs(f, err, context.DeadlineExceeded)
		require.ErrorContains(f, err, "by this session; its holder enters it again by the context of Lease.Enter: context deadline exceeded")
		require.NoError(f, lease.Unlock())
	})
}
