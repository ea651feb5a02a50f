// SPDX-License-Identifier: Apache-2.0

package locktest

import (
	"sync"
	"testing"
)

// Together runs n functions at the same time, waits for all of them, and fails the test with
// every error. It is for things that mostly wait: parallel tests run as many as there are
// processors.
func Together(tb testing.TB, n int, run func(i int) error) {
	tb.Helper()
	var group sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		group.Go(func() { errs[i] = run(i) })
	}
	group.Wait()
	for i, err := range errs {
		if err != nil {
			tb.Errorf("%d: %v", i, err)
		}
	}
	if tb.Failed() {
		tb.FailNow()
	}
}
