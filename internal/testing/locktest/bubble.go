// SPDX-License-Identifier: Apache-2.0

package locktest

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// longestBubble is how long a test in virtual time may take: renewals of two days are a few seconds of real time.
const longestBubble = 48 * time.Hour

// Bubble runs a test in virtual time, as synctest.Test does. It begins after the time that tokens count from, which is later than the
// first moment of a bubble. A test that waits for what never happens does not end by itself while renewals or polls go
// on: it panics, with its name, after two days of virtual time.
func Bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, time.March, 1, 0, 0, 0, 0, time.UTC))) //nolint:forbidigo // virtual time
		limit := time.AfterFunc(longestBubble, func() {                              //nolint:forbidigo // virtual time
			panic(fmt.Sprintf("%s has run for %v of virtual time: what it waits for does not happen", t.Name(), longestBubble))
		})
		defer limit.Stop()
		test(t)
	})
}

// Goroutines returns how many goroutines of the library the caller's bubble has, without those by which the client reads a connection.
func Goroutines() int {
	return GoroutinesThat(func(calls string) bool {
		calls = strings.ReplaceAll(calls, "signalbox/internal/testing/", "")
		return strings.Contains(calls, "signalbox/internal/") && !strings.Contains(calls, "wire.(*conn).Read")
	})
}

// GoroutinesThat returns how many goroutines of the caller's bubble have such a stack.
func GoroutinesThat(is func(calls string) bool) (n int) {
	stacks := make([]byte, 1<<20)
	size := runtime.Stack(stacks, true)
	for ; size == len(stacks); size = runtime.Stack(stacks, true) {
		stacks = make([]byte, 2*len(stacks))
	}
	all := string(stacks[:size])
	header, _, _ := strings.Cut(all, "\n")    // that of the caller comes first
	_, bubble, _ := strings.Cut(header, ", ") // "goroutine 9 [running, synctest bubble 1]:"
	for stack := range strings.SplitSeq(all, "\n\n") {
		header, calls, _ := strings.Cut(stack, "\n")
		if strings.HasSuffix(header, ", "+bubble) && is(calls) {
			n++
		}
	}
	return n
}
