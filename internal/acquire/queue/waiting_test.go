// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// P7: the work of n attempts that leave grows as n, in whatever order they leave, and the others keep their order.
func TestLeavingAttemptsDoNotSearchForThemselves(t *testing.T) {
	t.Parallel()
	for name, order := range map[string]func(all []*Attempt){
		"FirstFirst": func([]*Attempt) {},
		"LastFirst":  slices.Reverse[[]*Attempt],
		"Random":     func(all []*Attempt) { rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] }) },
	} {
		for _, n := range []int{1, 2, 3, 1000, 4000} {
			t.Run(fmt.Sprint(name, n), func(t *testing.T) {
				t.Parallel()
				q := &Queue{waitState: new(waitState)}
				left := q.addWaiting(n, queued)
				leaving := slices.Clone(left)
				order(leaving)
				steps := 0
				for i, a := range leaving {
					slots := len(q.waiting.slots)
					q.waiting.remove(a)
					if steps++; len(q.waiting.slots) < slots {
						steps += slots // all were looked at
					}
					if n <= 3 || i%100 == 0 {
						left = slices.DeleteFunc(left, func(a *Attempt) bool { return slices.Contains(leaving[:i+1], a) })
						require.Equal(t, left, slices.AppendSeq([]*Attempt{}, q.waiting.all()))
						require.Equal(t, len(left), q.waiting.len())
						require.Len(t, q.listLocked(), min(len(left), maxListed))
					}
				}
				require.LessOrEqual(t, steps, 4*n)
				require.Zero(t, q.waiting.len())
			})
		}
	}
}
