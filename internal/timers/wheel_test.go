// SPDX-License-Identifier: Apache-2.0

package timers_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
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

// Every scheduling ends in exactly one way: collected, cancelled, or replaced while it
// was pending. The last are not counted by anyone, so each goroutine cancels before it
// schedules again.
func TestConcurrentUseLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	const users, rounds = 4, 5000
	w := timers.NewWheel(64)
	var now, scheduled, cancelled, collected atomic.Int64
	stop := make(chan struct{})

	var driver, work sync.WaitGroup
	driver.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			collected.Add(int64(len(w.Advance(now.Add(1), nil))))
			w.Next()
		}
	})
	for user := range users {
		work.Go(func() {
			random := rand.New(rand.NewPCG(uint64(user), 0))
			all := newWheelTimers(50)
			for range rounds {
				e := &all[random.IntN(len(all))].Timer
				if w.Cancel(e) {
					cancelled.Add(1)
				}
				scheduled.Add(1)
				w.Schedule(e, now.Load()+random.Int64N(200))
			}
		})
	}
	work.Wait()
	close(stop)
	driver.Wait()

	last := now.Load() + 200
	for w.Len() > 0 {
		collected.Add(int64(len(w.Advance(last, nil))))
	}
	require.Equal(t, scheduled.Load(), collected.Load()+cancelled.Load())
}

// Many goroutines move the same entries, so that Schedule meets Schedule.
func TestConcurrentScheduleOfOneEntryIsSafe(t *testing.T) {
	t.Parallel()
	w, all := timers.NewWheel(16), newWheelTimers(3)
	var work sync.WaitGroup
	for user := range 4 {
		work.Go(func() {
			random := rand.New(rand.NewPCG(uint64(user), 1))
			for range 5000 {
				e := &all[random.IntN(len(all))].Timer
				if random.IntN(4) == 0 {
					w.Cancel(e)
				} else {
					w.Schedule(e, random.Int64N(1000))
				}
			}
		})
	}
	work.Go(func() {
		for now := range int64(1000) {
			w.Advance(now, nil)
			w.Next()
		}
	})
	work.Wait()
	for w.Len() > 0 {
		w.Advance(1000, nil)
	}
	for _, timer := range all {
		require.False(t, w.Cancel(&timer.Timer))
	}
}

// testTimer is a thing with an entry, as users of the wheel have it.
type wheelTimer struct {
	timers.Timer
	id    int
	fired func()
}

func (tt *wheelTimer) Fire() {
	if tt.fired != nil {
		tt.fired()
	}
}

func newWheelTimers(n int) []*wheelTimer {
	all := make([]*wheelTimer, n)
	for i := range all {
		all[i] = &wheelTimer{id: i}
		all[i].Init(all[i])
	}
	return all
}

// model does what the wheel promises in the most naive way, and plays both.
type model struct {
	t        *testing.T
	wheel    *timers.Wheel
	all      []*wheelTimer
	pending  map[int]int64 // id to tick
	now      int64
	reported int64
}

func newModel(t *testing.T, slots, entries int) *model {
	return &model{
		t: t, wheel: timers.NewWheel(slots), all: newWheelTimers(entries),
		pending: map[int]int64{}, now: math.MinInt64, reported: math.MaxInt64,
	}
}

func (m *model) schedule(id int, tick int64) {
	m.t.Helper()
	m.pending[id] = min(tick, math.MaxInt64-1)
	due := max(m.pending[id], m.now)
	require.Equal(m.t, due < m.reported, m.wheel.Schedule(&m.all[id].Timer, tick), "earliest of tick %d", tick)
	m.reported = min(m.reported, due)
}

func (m *model) cancel(id int) {
	m.t.Helper()
	_, was := m.pending[id]
	delete(m.pending, id)
	require.Equal(m.t, was, m.wheel.Cancel(&m.all[id].Timer), "cancel of %d", id)
}

// next checks the bound, and that it is exact once everything due is collected.
func (m *model) next() int64 {
	m.t.Helper()
	tick, ok := m.wheel.Next()
	require.Equal(m.t, len(m.pending) > 0, ok)
	if !ok {
		m.reported = math.MaxInt64
		return m.reported
	}
	earliest := int64(math.MaxInt64)
	for _, at := range m.pending {
		earliest = min(earliest, max(at, m.now))
	}
	require.LessOrEqual(m.t, tick, earliest, "Next too late")
	if tick > m.now {
		require.Equal(m.t, earliest, tick, "Next not exact")
	}
	m.reported = tick
	return tick
}

// advance checks one batch.
func (m *model) advance(now int64) {
	m.t.Helper()
	m.now = max(m.now, min(now, math.MaxInt64-1))
	due := m.wheel.Advance(now, nil)
	require.LessOrEqual(m.t, len(due), timers.MaxBatch)
	last := int64(math.MinInt64)
	for _, e := range due {
		id := e.Firer().(*wheelTimer).id
		tick, was := m.pending[id]
		require.True(m.t, was, "%d collected but not pending", id)
		require.Equal(m.t, tick, e.Due())
		require.LessOrEqual(m.t, tick, m.now, "%d collected early", id)
		require.GreaterOrEqual(m.t, tick, last, "batch out of order")
		delete(m.pending, id)
		last = tick
	}
	require.Equal(m.t, len(m.pending), m.wheel.Len())
}

// drain advances until Next says that nothing is due any more.
func (m *model) drain(now int64) {
	m.t.Helper()
	m.advance(now)
	for calls := 0; m.next() <= m.now; calls++ {
		require.Less(m.t, calls, 1000, "Next says due for ever")
		m.advance(now)
	}
	for id, tick := range m.pending {
		require.Greater(m.t, tick, m.now, "%d is due and was not collected", id)
	}
}

// play reads operations of four bytes each: what, which entry, and by how much.
func (m *model) play(ops []byte) {
	m.t.Helper()
	base := int64(0)
	for ; len(ops) >= 4; ops = ops[4:] {
		id := int(ops[1]) % len(m.all)
		by := int64(int16(uint16(ops[2]) | uint16(ops[3])<<8))
		switch ops[0] % 10 {
		case 0, 1, 2:
			m.schedule(id, base+by%64)
		case 3:
			m.schedule(id, base+by)
		case 4:
			m.schedule(id, (base+by)<<40) // far away, either side
		case 5:
			m.cancel(id)
		case 6:
			m.next()
		case 7:
			base += by & 63
			m.advance(base)
		case 8:
			base += by & 7
			m.drain(base)
		case 9:
			m.drain(base + by%1024) // back, too
			base = max(base, m.now)
		}
	}
	m.drain(math.MaxInt64)
	require.Empty(m.t, m.pending)
}

// TestWheelAgreesWithANaiveList plays random sequences. A failure names the subtest,
// whose name has the seed: run it alone with -run to see it again.
func TestWheelAgreesWithANaiveList(t *testing.T) {
	t.Parallel()
	for _, slots := range []int{1, 2, 8, 16} {
		for seed := range uint64(12) {
			t.Run(fmt.Sprintf("slots=%d/seed=%d", slots, seed), func(t *testing.T) {
				t.Parallel()
				random := rand.New(rand.NewPCG(seed, uint64(slots)))
				ops := make([]byte, 4*1000)
				for i := range ops {
					ops[i] = byte(random.Uint32())
				}
				newModel(t, slots, 1+int(seed*20)).play(ops)
			})
		}
	}
}

// FuzzWheelAgreesWithANaiveList searches for sequences that the random ones miss. The first byte chooses
// the number of slots.
func FuzzWheelAgreesWithANaiveList(f *testing.F) {
	f.Add([]byte{3, 0, 1, 5, 0, 6, 0, 0, 0, 8, 0, 7, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) == 0 || len(data) > 4*4000 {
			t.Skip()
		}
		newModel(t, 1<<(data[0]%5), 16).play(data[1:])
	})
}
