// SPDX-License-Identifier: Apache-2.0

//go:build race

package servers_test

// isRace reports whether the race detector is on: then pools drop what they keep, at random, and allocations are not counted.
const isRace = true
