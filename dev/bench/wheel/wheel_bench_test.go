// SPDX-License-Identifier: Apache-2.0

package wheel

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

const (
	// lead keeps every timer from being due during a benchmark.
	lead = time.Hour
	// spread is that of the delays, in milliseconds: leases of up to half a minute.
	spread = 30_000
	// far is where delays begin that become shorter with every operation, in
	// milliseconds.
	far = 1 << 40
	// drawn is the size of the tables of random numbers.
	drawn = 1 << 20
)

func ms(n int) time.Duration { return lead + time.Duration(n)*time.Millisecond }

// benchmark calls work with all timers pending, at random delays after from, and with
// tables of random numbers, so that drawing them is not part of what is measured.
func benchmark(b *testing.B, from int, work func(r rival, k int, ids, delays []int)) {
	for _, impl := range rivals {
		for _, pending := range []int{1, 10_000, 1_000_000} {
			b.Run(fmt.Sprintf("impl=%s/pending=%d", impl.name, pending), func(b *testing.B) {
				random := rand.New(rand.NewPCG(1, 2))
				ids, delays := make([]int, drawn), make([]int, drawn)
				for i := range ids {
					ids[i], delays[i] = random.IntN(pending), 1+random.IntN(spread)
				}
				r := impl.make(pending + 1)
				defer r.close()
				// One timer is earlier than all others, so that none of what is
				// measured makes a driver wake up.
				r.schedule(pending, lead/2)
				for i := range pending {
					r.schedule(i, ms(from+delays[i]))
				}
				b.ReportAllocs()
				for k := 0; b.Loop(); k++ {
					work(r, k, ids, delays)
				}
			})
		}
	}
}

// BenchmarkRescheduleHot renews one timer, a millisecond later each thousand times.
func BenchmarkRescheduleHot(b *testing.B) {
	benchmark(b, 0, func(r rival, k int, _, _ []int) { r.schedule(0, ms(spread+k>>10)) })
}

// BenchmarkRescheduleHotEarlier makes one timer due a millisecond earlier each time.
func BenchmarkRescheduleHotEarlier(b *testing.B) {
	benchmark(b, far, func(r rival, k int, _, _ []int) { r.schedule(0, ms(far-k)) })
}

// BenchmarkRescheduleRandom renews any timer: each delay ends later than the last.
func BenchmarkRescheduleRandom(b *testing.B) {
	benchmark(b, 0, func(r rival, k int, ids, _ []int) {
		r.schedule(ids[k%drawn], ms(spread+k>>10))
	})
}

// BenchmarkRescheduleRandomEarlier makes any timer due earlier.
func BenchmarkRescheduleRandomEarlier(b *testing.B) {
	benchmark(b, far, func(r rival, k int, ids, _ []int) {
		r.schedule(ids[k%drawn], ms(far-7919*k))
	})
}

// BenchmarkScheduleCancelHot is an uncontended lock taken and released.
func BenchmarkScheduleCancelHot(b *testing.B) {
	benchmark(b, 0, func(r rival, k int, _, _ []int) {
		r.cancel(0)
		r.schedule(0, ms(spread+k>>10))
	})
}

// BenchmarkScheduleCancelRandom cancels any timer and schedules it again, so that the
// number of pending ones stays.
func BenchmarkScheduleCancelRandom(b *testing.B) {
	benchmark(b, 0, func(r rival, k int, ids, delays []int) {
		i := ids[k%drawn]
		r.cancel(i)
		r.schedule(i, ms(delays[k*7%drawn]))
	})
}
