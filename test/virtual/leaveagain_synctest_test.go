// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/locktest"
)

// P7: a call had no reply, and the server's clock is set back by hours. Its undo is not sent again and again while the session waits.
func TestAnUndoAfterAClockStepIsNotRepeatedWithoutEnd(t *testing.T) {
	t.Parallel()
	locktest.Each(t, func(t *testing.T, p locktest.Primitive) {
		bubbleOfUsers(t, func(f *fixture) {
			ahead := f.skewed()
			held := atOnce(f.T, p.New(f.user().Session, "a"))
			s, link := f.open()
			mu := p.New(s, "a")
			waiting := locktest.LaterWith(f.Context(), mu.Lock)
			time.Sleep(5 * time.Second)
			link.swallowsReplies.Store(true)
			ctx, cancel := context.WithTimeout(f.Context(), 500*time.Millisecond)
			defer cancel()
			require.Error(f, no(p.New(s, "a").TryLock(ctx)))
			require.Error(f, no(locktest.Fair().New(s, "a").Lock(ctx)))
			f.stepsClock(ahead, -2*time.Hour)
			link.heal()
			time.Sleep(5 * time.Second)
			before := link.scripts.Load()
			time.Sleep(10 * time.Second)
			require.Less(f, link.scripts.Load()-before, int64(60))
			require.NoError(f, held.Unlock())
			require.NoError(f, locktest.MustHave(f, waiting).Unlock())
		})
	})
}
