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

func waitFrozen(t *testing.T, f *fixture) {
	t.Helper()
	f.server.Freeze()
	locktest.Together(t, 8, func(i int) error {
		ctx, cancel := shortly(t)
		defer cancel()
		begun := time.Now()
		_, err := f.kind.New(f.holder, fmt.Sprint("late/", i)).Lock(ctx)
		if !errors.Is(err, ctx.Err()) || time.Since(begun) > redistest.Patience/2 {
			return fmt.Errorf("%w after %v", err, time.Since(begun))
		}
		return nil
	})
	f.server.Thaw()
	redistest.Await(t, "everything is undone", func() bool { return locktest.Undoing(f.holder) == 0 })
	immortal, held, err := f.view.Leaks()
	require.NoError(t, err)
	require.Empty(t, immortal)
	require.Empty(t, held)
}
