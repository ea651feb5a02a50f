// SPDX-License-Identifier: Apache-2.0

package locktest

import (
	"os"
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
