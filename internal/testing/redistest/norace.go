// SPDX-License-Identifier: Apache-2.0

//go:build !race

package redistest

// underRace says whether the race detector is on.
const underRace = false
