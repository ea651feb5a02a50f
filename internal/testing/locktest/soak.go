// SPDX-License-Identifier: Apache-2.0

package locktest

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// SoakEnv names the environment variable that sets how long each long test runs: "10m". If it is not set,
// long tests are skipped.
const SoakEnv = "SIGNALBOX_SOAK"

// Soak skips the test unless long tests are asked for, and returns a function that reports
// whether there is time for another round. The first round always runs.
func Soak(tb testing.TB) (more func() bool) {
	tb.Helper()
	text := os.Getenv(SoakEnv)
	if text == "" {
		tb.Skipf("a long test: set %s to a time, such as 10m", SoakEnv)
	}
	length, err := time.ParseDuration(text)
	if err != nil {
		tb.Fatalf("%s: %v", SoakEnv, err)
	}
	ends, first := time.Now().Add(length), true
	return func() bool {
		again := first || time.Now().Before(ends)
		first = false
		return again && !tb.Failed()
	}
}

// SeedEnv names the environment variable that has the first seed of tests that draw what happens. Without it they draw that, too.
const SeedEnv = "SIGNALBOX_SEED"

// Seed returns the seed of SeedEnv, or one that is drawn.
func Seed(tb testing.TB) uint64 {
	tb.Helper()
	text := os.Getenv(SeedEnv)
	if text == "" {
		return rand.Uint64() >> 32
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		tb.Fatalf("%s: %v", SeedEnv, err)
	}
	return seed
}
