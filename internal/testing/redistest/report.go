// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"fmt"
	"sync"
	"testing"
)

// reporter reports failures that no caller gets as an error.
type reporter struct{ tb testing.TB } // nil in a program without a test

// failf marks the test as failed. It does not end it, because that is allowed only in the
// goroutine of the test, and hooks of a proxy run in others.
func (r reporter) failf(format string, args ...any) {
	if r.tb == nil {
		panic(fmt.Sprintf(format, args...))
	}
	r.tb.Helper()
	r.tb.Errorf(format, args...)
}

// tailSize is enough for what a server logs at its start and at a few failures.
const tailSize = 16 << 10

// tail is a writer that keeps the last tailSize to 2*tailSize bytes.
type tail struct {
	mu struct {
		sync.Mutex
		kept []byte
	}
}

// Write never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.kept = append(t.mu.kept, p...)
	if over := len(t.mu.kept) - 2*tailSize; over > 0 {
		t.mu.kept = append([]byte(nil), t.mu.kept[over+tailSize:]...)
	}
	return len(p), nil
}

// String returns what was kept.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.mu.kept)
}
