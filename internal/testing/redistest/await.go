// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"testing"
	"time"

	"github.com/redis/rueidis"
)

// Dialer makes clients of a server, of several servers that a client sees as one, or of a proxy before a
// server.
type Dialer interface {
	// Client returns a client that is closed when the test ends. mod, if not nil, changes its options.
	Client(tb testing.TB, mod func(*rueidis.ClientOption)) rueidis.Client
}

const (
	// Patience is more than any step takes on a machine that is not overloaded. Leases that must outlast a step count with it.
	Patience = 20 * time.Second

	// WaitLimit is how long a test waits for what must happen. Only a test that fails waits that long, so an overloaded machine
	// is no reason to fail.
	WaitLimit = 3 * Patience
)

// Await calls done until it returns true, and fails the test if it does not within WaitLimit.
func Await(tb testing.TB, what string, done func() bool) {
	tb.Helper()
	AwaitFor(tb, WaitLimit, what, done)
}

// AwaitFor is Await with another limit.
func AwaitFor(tb testing.TB, limit time.Duration, what string, done func() bool) {
	tb.Helper()
	if !PollUntil(limit, done) {
		tb.Fatalf("not within %v: %s", limit, what)
	}
}

// Receive returns what comes from c, or the zero value if c is closed, and fails the test if that does not
// happen within WaitLimit.
func Receive[T any](tb testing.TB, what string, c <-chan T) T {
	tb.Helper()
	return ReceiveFor(tb, WaitLimit, what, c)
}

// ReceiveFor is Receive with another limit.
func ReceiveFor[T any](tb testing.TB, limit time.Duration, what string, c <-chan T) T {
	tb.Helper()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case v := <-c:
		return v
	case <-timer.C:
		tb.Fatalf("not within %v: %s", limit, what)
		panic("unreachable")
	}
}

// Quick reports whether tests that cost time of the processor do less of what they repeat: under -short, and under the race
// detector, which makes them seven times slower and finds in few rounds what it finds. make test-full runs those of
// the packages that repeat most in full, without it.
func Quick() bool {
	return testing.Short() || UnderRace
}

// Rounds returns how many rounds a test makes of what it repeats: full, or quick if it is to be [Quick]. It is for tests that
// cost time of the processor; those that wait call [Slow].
func Rounds(quick, full int) int {
	if Quick() {
		return quick
	}
	return full
}

// Slow skips the test under -short, because it waits for real time. why says what it waits for that no test in virtual
// time can show.
func Slow(tb testing.TB, why string) {
	tb.Helper()
	if testing.Short() {
		tb.Skipf("waits for real time: %s", why)
	}
}

// Polling backs off from pollFirst to pollMost. The events polled for take 1 to 50 ms.
const (
	pollFirst = time.Millisecond / 2
	pollMost  = 16 * time.Millisecond
)

// PollUntil calls done until it returns true, and reports whether it did so within limit.
func PollUntil(limit time.Duration, done func() bool) bool {
	deadline := time.Now().Add(limit)
	pause := pollFirst
	t := time.NewTimer(pause)
	defer t.Stop()
	for !done() {
		if time.Now().After(deadline) {
			return done()
		}
		<-t.C
		pause = min(2*pause, pollMost)
		t.Reset(pause)
	}
	return true
}
