// SPDX-License-Identifier: Apache-2.0

//go:build !race

package redistest

// UnderRace reports whether the race detector is on: then pools drop what they keep, at random, and allocations are not counted.
const UnderRace = false
