// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"fmt"
	"testing"
)

// What an Unlock costs must not depend on how many share the hold, each with what hangs on it.
func BenchmarkUnlockBesideOthers(b *testing.B) {
	for _, others := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprintf("others=%d", others), func(b *testing.B) {
			_, first := begin(b, "key")
			for range others {
				beside, _ := first.Join()
				beside.Bind(b.Context())
			}
			for b.Loop() {
				l, _ := first.Join()
				l.Done()
				_ = l.Unlock()
			}
		})
	}
}
