// SPDX-License-Identifier: Apache-2.0

package timers_test

import (
	"math"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/timers"
)

// ids returns whose entries were collected, in order.
func ids(due []*timers.Timer) []int {
	out := []int{}
	for _, e := range due {
		out = append(out, e.Firer().(*wheelTimer).id)
	}
	return out
}

func TestEntryTakesAtMost56Bytes(t *testing.T) {
	t.Parallel()
	require.LessOrEqual(t, unsafe.Sizeof(timers.Timer{}), uintptr(48))
}

func TestNewPanicsUnlessSlotsIsAPowerOfTwo(t *testing.T) {
	t.Parallel()
	for _, slots := range []int{-8, 0, 3, 100} {
		require.Panics(t, func() { timers.NewWheel(slots) }, "%d slots", slots)
	}
	require.NotPanics(t, func() { timers.NewWheel(1) })
}

func TestGreatestTickIsNeverReachedButPending(t *testing.T) {
	t.Parallel()
	w, all := timers.NewWheel(8), newWheelTimers(1)
	require.True(t, w.Schedule(&all[0].Timer, math.MaxInt64))
	require.Empty(t, w.Advance(1<<62, nil))
	next, ok := w.Next()
	require.True(t, ok)
	require.Equal(t, int64(math.MaxInt64-1), next)
	require.True(t, w.Cancel(&all[0].Timer))
}

func TestOperationsDoNotAllocate(t *testing.T) {
	w, all := timers.NewWheel(64), newWheelTimers(1000)
	due := make([]*timers.Timer, 0, timers.MaxBatch)
	now := int64(0)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		for i, timer := range all {
			w.Schedule(&timer.Timer, now+int64(i*i%977))
			if i%3 == 0 {
				w.Cancel(&timer.Timer)
			}
		}
		now += 50
		due = w.Advance(now, due[:0])
		w.Next()
	}))
}
