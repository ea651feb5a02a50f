// SPDX-License-Identifier: Apache-2.0

package dialtest

import (
	"slices"
	"strings"
)

// Undecided is a factor of a row that has no value yet.
const Undecided = -1

// Factors are settings that are combined: the names of the values of each.
type Factors [][]string

// Pairs returns rows of the factors: see the function of that name.
func (f Factors) Pairs(allowed func(row []int) bool) [][]int {
	sizes := make([]int, len(f))
	for factor, values := range f {
		sizes[factor] = len(values)
	}
	return Pairs(sizes, allowed)
}

// Is reports whether a row has one of these values of a factor.
func (f Factors) Is(row []int, factor int, names ...string) bool {
	return row[factor] != Undecided && slices.Contains(names, f[factor][row[factor]])
}

// Name returns the values of a row.
func (f Factors) Name(row []int) string {
	names := make([]string, len(row))
	for factor, value := range row {
		names[factor] = f[factor][value]
	}
	return strings.Join(names, "/")
}

// Pairs returns rows that have a value for each factor: a number below sizes[factor]. Every two values of two factors are together in
// one of the rows, unless no row that is allowed has both. Rows that are passed to allowed can be Undecided in part. The same
// arguments return the same rows.
//
// It is greedy: a row begins with a pair that is in no row yet, and each further factor gets the value that adds most such pairs.
func Pairs(sizes []int, allowed func(row []int) bool) (rows [][]int) {
	covered := make(map[[4]int]bool)
	for a, sizeA := range sizes {
		for b, sizeB := range sizes[:a] {
			for v := range sizeA * sizeB {
				row := slices.Repeat([]int{Undecided}, len(sizes))
				row[a], row[b] = v/sizeB, v%sizeB
				if gain(covered, row, a) == 0 || !extends(sizes, allowed, row) {
					continue
				}
				for factor := range sizes {
					choose(sizes, allowed, covered, row, factor)
				}
				for factor := range sizes {
					eachPair(row, factor, func(pair [4]int) { covered[pair] = true })
				}
				rows = append(rows, row)
			}
		}
	}
	return rows
}

// eachPair calls f for each pair of a factor's value and that of a factor before it.
func eachPair(row []int, factor int, f func(pair [4]int)) {
	for other, value := range row {
		if other != factor && value != Undecided && row[factor] != Undecided {
			f([4]int{max(factor, other), row[max(factor, other)], min(factor, other), row[min(factor, other)]})
		}
	}
}

// gain returns how many pairs of a factor's value are new.
func gain(covered map[[4]int]bool, row []int, factor int) (n int) {
	eachPair(row, factor, func(pair [4]int) {
		if !covered[pair] {
			n++
		}
	})
	return n
}

// extends reports whether values for the undecided factors exist with which the row is allowed.
func extends(sizes []int, allowed func(row []int) bool, row []int) bool {
	if !allowed(row) {
		return false
	}
	factor := slices.Index(row, Undecided)
	if factor < 0 {
		return true
	}
	row = slices.Clone(row)
	for row[factor] = range sizes[factor] {
		if extends(sizes, allowed, row) {
			return true
		}
	}
	return false
}

// choose decides on a factor that is undecided.
func choose(sizes []int, allowed func(row []int) bool, covered map[[4]int]bool, row []int, factor int) {
	if row[factor] != Undecided {
		return
	}
	best, most := Undecided, -1
	for row[factor] = range sizes[factor] {
		if n := gain(covered, row, factor); n > most && extends(sizes, allowed, row) {
			best, most = row[factor], n
		}
	}
	row[factor] = best
}
