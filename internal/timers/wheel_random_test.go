// SPDX-License-Identifier: Apache-2.0

package timers_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

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
