// SPDX-License-Identifier: Apache-2.0

package wheel_test

import (
	"math"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/timers/wheel"
)

// ids returns whose entries were collected, in order.
func ids(due []*wheel.Entry) []int {
	out := []int{}
	for _, e := range due {
		out = append(out, e.Firer().(*testTimer).id)
	}
	return out
}

func TestEntryTakesAtMost56Bytes(t *testing.T) {
	t.Parallel()
	require.LessOrEqual(t, unsafe.Sizeof(wheel.Entry{}), uintptr(48))
}

func TestNewPanicsUnlessSlotsIsAPowerOfTwo(t *testing.T) {
	t.Parallel()
	for _, slots := range []int{-8, 0, 3, 100} {
		require.Panics(t, func() { wheel.New(slots) }, "%d slots", slots)
	}
	require.NotPanics(t, func() { wheel.New(1) })
}

func TestGreatestTickIsNeverReachedButPending(t *testing.T) {
	t.Parallel()
	w, all := wheel.New(8), newTestTimer(1)
	require.True(t, w.Schedule(&all[0].Entry, math.MaxInt64))
	require.Empty(t, w.Advance(1<<62, nil))
	next, ok := w.Next()
	require.True(t, ok)
	require.Equal(t, int64(math.MaxInt64-1), next)
	require.True(t, w.Cancel(&all[0].Entry))
}

func TestOperationsDoNotAllocate(t *testing.T) {
	w, all := wheel.New(64), newTestTimer(1000)
	due := make([]*wheel.Entry, 0, wheel.MaxBatch)
	now := int64(0)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		for i, timer := range all {
			w.Schedule(&timer.Entry, now+int64(i*i%977))
			if i%3 == 0 {
				w.Cancel(&timer.Entry)
			}
		}
		now += 50
		due = w.Advance(now, due[:0])
		w.Next()
	}))
}
