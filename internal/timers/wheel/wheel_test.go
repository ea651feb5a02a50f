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

func TestEntryIsSkippedUntilItsTurn(t *testing.T) {
	t.Parallel()
	w, all := wheel.New(8), newTestTimer(3)
	w.Advance(0, nil)
	for i, timer := range all {
		w.Schedule(&timer.Entry, int64(5+i*8)) // one slot, three turns
	}
	for now := int64(1); now <= 21; now++ {
		want := []int{}
		if now%8 == 5 {
			want = []int{int(now / 8)}
		}
		require.Equal(t, want, ids(w.Advance(now, nil)), "at %d", now)
	}
	require.Zero(t, w.Len())
}

func TestTickAlreadyPassedIsDueAtOnce(t *testing.T) {
	t.Parallel()
	w, all := wheel.New(8), newTestTimer(3)
	w.Advance(100, nil)
	require.True(t, w.Schedule(&all[0].Entry, 100))
	require.False(t, w.Schedule(&all[1].Entry, 40), "no earlier than at once, which was reported")
	require.False(t, w.Schedule(&all[2].Entry, math.MinInt64))
	next, ok := w.Next()
	require.True(t, ok)
	require.LessOrEqual(t, next, int64(100))
	require.Equal(t, []int{2, 1, 0}, ids(w.Advance(100, nil)))
	require.Equal(t, int64(math.MinInt64), all[2].Due())
}

func TestNegativeTicksAreTicks(t *testing.T) {
	t.Parallel()
	w, all := wheel.New(8), newTestTimer(2)
	w.Schedule(&all[0].Entry, -3)
	w.Schedule(&all[1].Entry, -30)
	next, _ := w.Next()
	require.Equal(t, int64(-30), next)
	require.Empty(t, w.Advance(-31, nil))
	require.Equal(t, []int{1}, ids(w.Advance(-4, nil)))
	require.Equal(t, []int{0}, ids(w.Advance(0, nil)))
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

func TestNowThatGoesBackCountsAsTheEarlierOne(t *testing.T) {
	t.Parallel()
	w, all := wheel.New(8), newTestTimer(1)
	w.Advance(50, nil)
	w.Schedule(&all[0].Entry, 45)
	require.Equal(t, []int{0}, ids(w.Advance(10, nil)))
}

func TestLastScheduleCounts(t *testing.T) {
	t.Parallel()
	w, all := wheel.New(8), newTestTimer(1)
	w.Advance(0, nil)
	for _, tick := range []int64{10, 3, 90, 7} {
		w.Schedule(&all[0].Entry, tick)
	}
	require.Equal(t, 1, w.Len())
	require.Empty(t, w.Advance(6, nil))
	require.Equal(t, []int{0}, ids(w.Advance(100, nil)))
	require.Empty(t, w.Advance(200, nil))
}

func TestScheduleReportsOnlyEarlierEntries(t *testing.T) {
	t.Parallel()
	w, all := wheel.New(8), newTestTimer(3)
	w.Advance(0, nil)
	require.True(t, w.Schedule(&all[0].Entry, 20), "the wheel was empty")
	require.False(t, w.Schedule(&all[1].Entry, 20), "reported before")
	next, _ := w.Next()
	require.Equal(t, int64(20), next)
	require.False(t, w.Schedule(&all[1].Entry, 21))
	require.True(t, w.Schedule(&all[2].Entry, 19))
	require.True(t, w.Cancel(&all[2].Entry))
	require.False(t, w.Schedule(&all[2].Entry, 19), "19 was reported, and Next was not called since")
}

func TestCancelReturnsFalseOnceCollected(t *testing.T) {
	t.Parallel()
	w, all := wheel.New(8), newTestTimer(2)
	require.False(t, w.Cancel(&all[0].Entry), "never scheduled")
	w.Schedule(&all[0].Entry, 1)
	w.Schedule(&all[1].Entry, 1)
	require.True(t, w.Cancel(&all[0].Entry))
	require.False(t, w.Cancel(&all[0].Entry), "cancelled before")
	require.Equal(t, []int{1}, ids(w.Advance(1, nil)))
	require.False(t, w.Cancel(&all[1].Entry))
}

func TestRescheduleInsideFireIsNotCollectedTwice(t *testing.T) {
	t.Parallel()
	w, all := wheel.New(8), newTestTimer(1)
	now, fires := int64(0), 0
	all[0].fired = func() {
		fires++
		w.Schedule(&all[0].Entry, now+8) // the same slot again
	}
	w.Schedule(&all[0].Entry, 8)
	for now = 0; now <= 80; now++ {
		for _, e := range w.Advance(now, nil) {
			e.Firer().Fire()
		}
	}
	require.Equal(t, 10, fires)
	require.Equal(t, 1, w.Len())
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
