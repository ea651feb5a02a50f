// SPDX-License-Identifier: Apache-2.0

package dialtest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/dialtest"
)

func TestEveryAllowedPairIsInARow(t *testing.T) {
	t.Parallel()
	sizes := []int{5, 2, 4, 7, 3, 2, 4}
	// The first factor needs 0 in the last, which needs 0 or 1 in the second to last, so pairs are impossible that nothing forbids.
	allowed := func(row []int) bool {
		return (row[0] <= 0 || row[6] <= 0) && (row[6] != 0 || row[5] <= 0)
	}
	rows := dialtest.Pairs(sizes, allowed)
	require.Less(t, len(rows), 60, "of 6720")
	require.Equal(t, rows, dialtest.Pairs(sizes, allowed))
	seen := make(map[[4]int]bool)
	for _, row := range rows {
		require.True(t, allowed(row), row)
		for a := range row {
			require.GreaterOrEqual(t, row[a], 0)
			for b := range row[:a] {
				seen[[4]int{a, row[a], b, row[b]}] = true
			}
		}
	}
	all := 1
	for _, size := range sizes {
		all *= size
	}
	for n := range all {
		row := make([]int, len(sizes))
		for factor, size := range sizes {
			row[factor], n = n%size, n/size
		}
		if !allowed(row) {
			continue
		}
		for a := range row {
			for b := range row[:a] {
				require.True(t, seen[[4]int{a, row[a], b, row[b]}], row)
			}
		}
	}
}
