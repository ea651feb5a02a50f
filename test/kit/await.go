// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"context"
	"testing"
	"time"
)

// Patience is how long a test waits for what should happen soon. Only a broken promise takes
// that long, so a loaded machine is no reason to fail.
const Patience = 20 * time.Second

// pause is the time between two looks of Await.
const pause = 2 * time.Millisecond

// Await waits until done answers true, and fails the test if it has not within limit.
func Await(tb testing.TB, limit time.Duration, what string, done func() bool) {
	tb.Helper()
	if !Became(limit, done) {
		tb.Fatalf("not within %v: %s", limit, what)
	}
}

// Became waits until done answers true, and reports whether it did so within limit.
func Became(limit time.Duration, done func() bool) bool {
	late := time.NewTimer(limit)
	defer late.Stop()
	again := time.NewTicker(pause)
	defer again.Stop()
	for !done() {
		select {
		case <-again.C:
		case <-late.C:
			return done()
		}
	}
	return true
}

// Closed waits until c is closed, or has something to receive, and fails the test if that
// does not happen within limit.
func Closed[T any](tb testing.TB, limit time.Duration, what string, c <-chan T) {
	tb.Helper()
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case <-c:
	case <-late.C:
		tb.Fatalf("not within %v: %s", limit, what)
	}
}

// Context answers a context that ends with the test, and after Patience.
func Context(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	tb.Cleanup(cancel)
	return ctx
}
