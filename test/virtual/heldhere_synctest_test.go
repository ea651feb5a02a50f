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
	bubble(t, func(w *fixture) {
		s, _, end := w.session(w.T)
		defer end()
		mu := reentrant.New(s, "a")
		lease, err := mu.Lock(w.Context())
		require.NoError(w, err)
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		_, err = mu.Lock(ctx)
		require.ErrorIs(w, err, signalbox.ErrHeld)
		require.ErrorIs(w, err, context.DeadlineExceeded)
		require.ErrorContains(w, err, "by this session; its holder enters it again by the context of Lease.Enter: context deadline exceeded")
		require.NoError(w, lease.Unlock())
	})
}
