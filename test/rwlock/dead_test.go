// SPDX-License-Identifier: Apache-2.0

package rwlock_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/rwlock"
)

// P2: a holder of either side whose process is stopped past its lease finds out by its first call, and the next holder is left
// alone.
func TestAStoppedHolderOfAHalfSparesTheNext(t *testing.T) {
	t.Parallel()
	for _, side := range []locktest.Primitive{locktest.Writer(), locktest.Reader()} {
		t.Run(side.Name, func(t *testing.T) {
			t.Parallel()
			redistest.Slow(t, "a process is stopped until its lease has expired")
			f := newFixture(t)
			p := f.start(t, "side", side, side.Name, time.Second)
			says(t, p, "began")
			says(t, p, "held")
			p.Freeze()
			next, err := rwlock.New(f.other, side.Name).Lock(long(t))
			require.NoError(t, err)
			p.Send("unlock")
			p.Thaw()
			says(t, p, fmt.Sprintf("unlocked signalbox: unlock %q: %v", side.Name, signalbox.ErrLost))
			require.NoError(t, next.Err())
			require.NoError(t, next.Unlock())
			f.nothingLeft(t)
		})
	}
}
