// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/reentrant"
)

// The client connects inside of a call, and the server takes connections and says nothing: the call
// ends with its context all the same, and so do those that wait for the same connection.
func TestCallsEndOnTimeWhileTheClientConnects(t *testing.T) { //nolint:paralleltest // one bubble after the other
	bubble(t, func(w *world) {
		t := w.T
		s, lines, closeSession := w.session(t)
		defer closeSession()
		lease, err := reentrant.New(s, "held").Lock(t.Context())
		require.NoError(t, err)
		lines.dead()
		lines.cut()
		synctest.Wait()
		late := func() time.Duration {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			return took(func() {
				_, err := reentrant.New(s, "other").Lock(ctx)
				require.ErrorIs(t, err, context.DeadlineExceeded)
			})
		}
		beside := make(chan time.Duration, 1)
		go func() { beside <- late() }()
		require.Equal(t, 100*time.Millisecond, late())
		require.Equal(t, 100*time.Millisecond, <-beside)
		require.Equal(t, time.Second, took(func() {
			require.ErrorIs(t, lease.Unlock(), signalbox.ErrUnconfirmed)
		}))
		lines.heals()
		_, err = reentrant.New(s, "other").Lock(t.Context())
		require.NoError(t, err)
	})
}
