// SPDX-License-Identifier: Apache-2.0

package timers_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/signalbox-go/signalbox/internal/timers"
)

// turn is the spread of the delays, in milliseconds: leases of up to half a minute.
const turn = 30_000

// BenchmarkDriven is the wheel with everything it postpones: time passes, each entry is renewed for a turn
// every third of a turn on average, and those drawn too late are collected and scheduled again. One operation
// is one renewal and its share of that.
func BenchmarkDriven(b *testing.B) {
	for _, pending := range []int{1, 10_000, 1_000_000} {
		b.Run(fmt.Sprintf("impl=wheel/pending=%d", pending), func(b *testing.B) {
			random := rand.New(rand.NewPCG(1, 2))
			w, all := timers.NewWheel(4096), newWheelTimers(pending)
			w.Advance(0, nil)
			for _, timer := range all {
				w.Schedule(&timer.Timer, 1+random.Int64N(turn))
			}
			due := make([]*timers.Timer, 0, timers.MaxBatch)
			renewals := max(1, 3*pending/turn) // in one tick
			now := int64(0)
			b.ReportAllocs()
			for k := 0; b.Loop(); k++ {
				w.Schedule(&all[random.IntN(pending)].Timer, now+turn)
				if k%renewals > 0 {
					continue
				}
				now++
				for next := now; next <= now; next, _ = w.Next() {
					due = w.Advance(now, due[:0])
					for _, e := range due {
						w.Schedule(e, now+turn)
					}
				}
			}
		})
	}
}
