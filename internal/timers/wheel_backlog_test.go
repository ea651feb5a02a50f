// SPDX-License-Identifier: Apache-2.0

package timers_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/timers"
)

// batches collects everything due at now, batch by batch.
func collectBatches(w *timers.Wheel, now int64) (due []*timers.Timer, calls int) {
	for {
		due = w.Advance(now, due)
		calls++
		if next, ok := w.Next(); !ok || next > now {
			return due, calls
		}
	}
}

func TestSlotWithManyEntriesIsScannedInParts(t *testing.T) {
	t.Parallel()
	w, all := timers.NewWheel(8), newWheelTimers(10_000)
	w.Advance(0, nil)
	for _, timer := range all[1:] {
		w.Schedule(&timer.Timer, 808) // slot 0, much later
	}
	w.Schedule(&all[0].Timer, 8)
	for _, timer := range all[5000:] {
		w.Schedule(&timer.Timer, 1608) // postponed: stays linked
	}
	due, calls := collectBatches(w, 8)
	require.Equal(t, []int{0}, ids(due))
	require.Equal(t, 10, calls, "of 1024 visits each")
	due, _ = collectBatches(w, 808)
	require.Len(t, due, 4999)
	due, _ = collectBatches(w, 1608)
	require.Len(t, due, 5000)
}

func TestEntriesThatKeepComingDueDoNotStarveOthers(t *testing.T) {
	t.Parallel()
	w, busy, quiet := timers.NewWheel(8), newWheelTimers(3*timers.MaxBatch), newWheelTimers(100)
	w.Advance(0, nil)
	for _, timer := range busy {
		w.Schedule(&timer.Timer, 0)
	}
	for i, timer := range quiet {
		w.Schedule(&timer.Timer, int64(i%10))
	}
	left := map[*timers.Timer]bool{}
	for _, timer := range quiet {
		left[&timer.Timer] = true
	}
	for now := int64(1); now < 100; now++ { // one batch a tick is less than what is due
		for _, e := range w.Advance(now, nil) {
			if !left[e] {
				w.Schedule(e, 0)
			}
			delete(left, e)
		}
	}
	require.Empty(t, left)
}

// Many slots with too early bounds are more than one Next makes exact. The driver then wakes needlessly, but
// not more often than there are such slots.
func TestCancelledEntriesCostFewWakeUps(t *testing.T) {
	t.Parallel()
	const slots = 1024
	w, early, late := timers.NewWheel(slots), newWheelTimers(slots), newWheelTimers(slots)
	w.Advance(0, nil)
	for i := range slots {
		w.Schedule(&early[i].Timer, int64(i+1))
		w.Schedule(&late[i].Timer, int64(i+1+slots*50))
	}
	for _, timer := range early {
		require.True(t, w.Cancel(&timer.Timer))
	}
	idle := 0
	for now, _ := w.Next(); now < slots*50; now, _ = w.Next() {
		require.Empty(t, w.Advance(now, nil))
		idle++
	}
	require.Less(t, idle, slots/8)
	next, _ := w.Next()
	require.Equal(t, int64(slots*50+1), next, "exact in the end")
}

func TestPauseWithinATurnIsCaughtUpOldestFirst(t *testing.T) {
	t.Parallel()
	w, all := timers.NewWheel(1024), newWheelTimers(2000)
	w.Advance(0, nil)
	for i, timer := range all {
		w.Schedule(&timer.Timer, 1+int64(i*7919%1000))
	}
	due, _ := collectBatches(w, 1000)
	require.Len(t, due, len(all))
	for i := 1; i < len(due); i++ {
		require.LessOrEqual(t, due[i-1].Due(), due[i].Due())
	}
}
