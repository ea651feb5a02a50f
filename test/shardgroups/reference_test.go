// SPDX-License-Identifier: Apache-2.0

package shardgroups_test

// part is what the reference knows of a member: its weight, and how many shards it takes at most.
type part struct{ weight, limit int }

// spreads calls use with each way to divide n shards among parts that no move of a shard improves. The slice is used again.
func spreads(n int, parts []part, use func(loads []int)) {
	loads := make([]int, len(parts))
	var fill func(i, left int)
	fill = func(i, left int) {
		if i == len(parts)-1 {
			if loads[i] = left; left <= parts[i].limit && isBest(loads, parts) {
				use(loads)
			}
			return
		}
		for loads[i] = 0; loads[i] <= min(left, parts[i].limit); loads[i]++ {
			fill(i+1, left-loads[i])
		}
	}
	fill(0, min(n, capacity(parts)))
}

// capacity is how many shards parts take together.
func capacity(parts []part) (sum int) {
	for _, p := range parts {
		sum += p.limit
	}
	return sum
}

// isBest returns whether no move improves the loads: none from a greater (load - 1/2) / weight to a smaller (load + 1/2) / weight.
func isBest(loads []int, parts []part) bool {
	for from, donor := range parts {
		for to, taker := range parts {
			if from != to && loads[to] < taker.limit && (2*loads[to]+1)*donor.weight < (2*loads[from]-1)*taker.weight {
				return false
			}
		}
	}
	return true
}

// fewestMoves returns how many of n shards have to get another owner, of which owned are with parts now.
func fewestMoves(n int, parts []part, owned []int) int {
	fewest := n + 1
	spreads(n, parts, func(loads []int) {
		kept := 0
		for i, load := range loads {
			kept += min(load, owned[i])
		}
		fewest = min(fewest, n-kept)
	})
	return fewest
}
