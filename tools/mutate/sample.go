// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"hash/fnv"
	"math/rand/v2"
	"slices"
)

// sample takes about count mutants, proportional to how many each group has, but least of each
// group that has so many. The same seed takes the same mutants of a group, whatever the other
// groups have. viable says whether a mutant compiles; one that does not is passed over.
func sample(all []mutant, group func(mutant) string, seed uint64, count, least int, viable func(mutant) bool) []mutant {
	groups := make(map[string][]mutant)
	for _, m := range all {
		groups[group(m)] = append(groups[group(m)], m)
	}
	var taken []mutant
	for name, of := range groups {
		hash := fnv.New64a()
		hash.Write([]byte(name))
		slices.SortFunc(of, inOrder)
		rand.New(rand.NewPCG(seed, hash.Sum64())).Shuffle(len(of), func(i, j int) { of[i], of[j] = of[j], of[i] })
		quota := max(least, (count*len(of)+len(all)/2)/len(all))
		for _, m := range of {
			if quota > 0 && viable(m) {
				taken = append(taken, m)
				quota--
			}
		}
	}
	slices.SortFunc(taken, inOrder)
	return taken
}

func inOrder(a, b mutant) int {
	return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col), cmp.Compare(a.Kind, b.Kind))
}
