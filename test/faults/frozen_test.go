// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// P4: a waiter that asks while the server is frozen ends by its own context, and its request has no effect
// later. The client waits a second for a connection that is just being made.
func TestWaiterOfAFrozenServerGoesInItsOwnTime(t *testing.T) {
	t.Parallel()
	each(t, waitFrozen)
}

func waitFrozen(t *testing.T, w *fixture) {
	t.Helper()
	w.server.Freeze()
	locktest.Together(t, 8, func(i int) error {
		ctx, cancel := shortly(t)
		defer cancel()
		begun := time.Now()
		_, err := w.kind.New(w.holder, fmt.Sprint("late/", i)).Lock(ctx)
		if !errors.Is(err, ctx.Err()) || time.Since(begun) > redistest.Patience/2 {
			return fmt.Errorf("%w after %v", err, time.Since(begun))
		}
		return nil
	})
	w.server.Thaw()
	redistest.Await(t, "everything is undone", func() bool { return locktest.Undoing(w.holder) == 0 })
	immortal, held, err := w.view.Leaks()
	require.NoError(t, err)
	require.Empty(t, immortal)
	require.Empty(t, held)
}
