// SPDX-License-Identifier: Apache-2.0

package wheel_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/signalbox-go/signalbox/internal/timers/wheel"
)

// turn is the spread of the delays, in milliseconds: leases of up to half a minute.
const turn = 30_000

// far is where entries and ticks begin that become earlier with every operation: the
// wheel cannot leave such an entry where it is, but must move it.
const far int64 = 1 << 40

var pendings = []int{1, 10_000, 1_000_000}

// rival is one implementation with a number of pending entries.
type rival interface {
	schedule(i int, in int64)
	cancel(i int)
}

type wheelRival struct {
	w   *wheel.Wheel
	all []testTimer
}

func newWheelRival(pending int) rival {
	r := &wheelRival{w: wheel.New(4096), all: make([]testTimer, pending)}
	r.w.Advance(0, nil)
	for i := range r.all {
		r.all[i].Init(&r.all[i])
	}
	return r
}

func (r *wheelRival) schedule(i int, in int64) { r.w.Schedule(&r.all[i].Entry, in) }
func (r *wheelRival) cancel(i int)             { r.w.Cancel(&r.all[i].Entry) }

type afterFuncRival []*time.Timer

func newAfterFuncRival(pending int) rival {
	r := make(afterFuncRival, pending)
	for i := range r {
		r[i] = time.AfterFunc(24*time.Hour, func() {})
	}
	return r
}

func (r afterFuncRival) schedule(i int, in int64) {
	r[i].Reset(time.Hour + time.Duration(in)*time.Millisecond) // none fires meanwhile
}
func (r afterFuncRival) cancel(i int) { r[i].Stop() }

var rivals = []struct {
	name string
	make func(pending int) rival
}{
	{"wheel", newWheelRival},
	{"afterfunc", newAfterFuncRival},
}

// benchmark calls work with all entries pending at random ticks after from, and two
// tables of random numbers, so that drawing them is not part of what is measured.
func benchmark(b *testing.B, from int64, work func(r rival, k int, ids, ticks []int)) {
	for _, rival := range rivals {
		for _, pending := range pendings {
			b.Run(fmt.Sprintf("impl=%s/pending=%d", rival.name, pending), func(b *testing.B) {
				random := rand.New(rand.NewPCG(1, 2))
				r := rival.make(pending)
				ids, ticks := make([]int, 1<<20), make([]int, 1<<20)
				for i := range ids {
					ids[i], ticks[i] = random.IntN(pending), 1+random.IntN(turn)
				}
				for i := range pending {
					r.schedule(i, from+int64(ticks[i]))
				}
				b.ReportAllocs()
				for k := 0; b.Loop(); k++ {
					work(r, k, ids, ticks)
				}
				b.StopTimer()
				for i := range pending {
					r.cancel(i)
				}
			})
		}
	}
}

// BenchmarkRescheduleHot renews one entry, a tick later each thousand times. The wheel
// leaves it where it is; what that puts off is part of BenchmarkDriven.
func BenchmarkRescheduleHot(b *testing.B) {
	benchmark(b, 0, func(r rival, k int, _, _ []int) { r.schedule(0, int64(turn+k>>10)) })
}

// BenchmarkRescheduleHotEarlier moves one entry by one slot each time.
func BenchmarkRescheduleHotEarlier(b *testing.B) {
	benchmark(b, far, func(r rival, k int, _, _ []int) { r.schedule(0, far-int64(k)) })
}

// BenchmarkRescheduleRandom renews any entry: every tick is later than the last. The
// wheel leaves it where it is; what that puts off is part of BenchmarkDriven.
func BenchmarkRescheduleRandom(b *testing.B) {
	benchmark(b, 0, func(r rival, k int, ids, _ []int) {
		r.schedule(ids[k&(1<<20-1)], int64(turn+k>>10))
	})
}

// BenchmarkRescheduleRandomEarlier moves any entry to another slot.
func BenchmarkRescheduleRandomEarlier(b *testing.B) {
	benchmark(b, far, func(r rival, k int, ids, _ []int) {
		r.schedule(ids[k&(1<<20-1)], far-7919*int64(k))
	})
}

// BenchmarkScheduleCancelHot is an uncontended lock taken and released.
func BenchmarkScheduleCancelHot(b *testing.B) {
	benchmark(b, 0, func(r rival, k int, _, _ []int) {
		r.cancel(0)
		r.schedule(0, int64(turn+k>>10))
	})
}

// BenchmarkScheduleCancelRandom cancels any entry and schedules it again, so that the
// number of pending ones stays.
func BenchmarkScheduleCancelRandom(b *testing.B) {
	benchmark(b, 0, func(r rival, k int, ids, ticks []int) {
		i := ids[k&(1<<20-1)]
		r.cancel(i)
		r.schedule(i, int64(ticks[(k*7)&(1<<20-1)]))
	})
}

// BenchmarkDriven is the wheel with everything it postpones: time passes, each entry is renewed for a turn
// every third of a turn on average, and those drawn too late are collected and scheduled again. One operation
// is one renewal and its share of that.
func BenchmarkDriven(b *testing.B) {
	for _, pending := range pendings {
		b.Run(fmt.Sprintf("impl=wheel/pending=%d", pending), func(b *testing.B) {
			random := rand.New(rand.NewPCG(1, 2))
			r := newWheelRival(pending).(*wheelRival)
			for i := range pending {
				r.schedule(i, 1+random.Int64N(turn))
			}
			due := make([]*wheel.Entry, 0, wheel.MaxBatch)
			renewals := max(1, 3*pending/turn) // in one tick
			now := int64(0)
			b.ReportAllocs()
			for k := 0; b.Loop(); k++ {
				r.schedule(random.IntN(pending), now+turn)
				if k%renewals > 0 {
					continue
				}
				now++
				for next := now; next <= now; next, _ = r.w.Next() {
					due = r.w.Advance(now, due[:0])
					for _, e := range due {
						r.w.Schedule(e, now+turn)
					}
				}
			}
		})
	}
}
