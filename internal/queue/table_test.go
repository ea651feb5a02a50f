// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whatever is put into a table and removed, it has what a map has.
func TestTableIsAMap(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, seed))
		x, want := newTable(func(s *string) string { return *s }), make(map[string]*string)
		for range 500 {
			key := strconv.Itoa(random.IntN(1 + int(seed)))
			require.Same(t, want[key], x.get(key))
			if want[key] == nil && random.IntN(5) > 1 {
				want[key] = &key
				x.put(&key)
			} else {
				delete(want, key)
				x.remove(key)
			}
			require.Equal(t, len(want), x.len)
		}
		found := make(map[string]*string)
		for v := range x.all() {
			found[*v] = v
		}
		require.Equal(t, want, found)
	}
}
