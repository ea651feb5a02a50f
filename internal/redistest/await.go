// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"testing"
	"time"

	"github.com/redis/rueidis"
)

// Dialer is what answers clients: a server, several that a client sees as one, or a proxy before one.
type Dialer interface {
	// Client returns a client that is closed when the test ends. mod, if not nil, changes its options.
	Client(tb testing.TB, mod func(*rueidis.ClientOption)) rueidis.Client
}

// awaitPause is the time between two looks of Await.
const awaitPause = 2 * time.Millisecond

// Await asks done again and again until it answers true, and fails the test if it has not within limit.
func Await(tb testing.TB, limit time.Duration, what string, done func() bool) {
	tb.Helper()
	deadline := time.Now().Add(limit)
	pause := time.NewTicker(awaitPause)
	defer pause.Stop()
	for !done() {
		if time.Now().After(deadline) {
			tb.Fatalf("not within %v: %s", limit, what)
		}
		<-pause.C
	}
}

// Receive returns what comes from c, or the zero value if c is closed, and fails the test if that does not
// happen within limit.
func Receive[T any](tb testing.TB, limit time.Duration, what string, c <-chan T) T {
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
