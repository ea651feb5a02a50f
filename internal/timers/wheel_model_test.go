// SPDX-License-Identifier: Apache-2.0

package timers_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/timers"
)

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
