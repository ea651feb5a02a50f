// SPDX-License-Identifier: Apache-2.0

package reentrant_test

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

// longest is the longest lease that there is, which is not renewed before any test is over.
const longest = 24 * time.Hour

// holderValue returns what the holder key of a lock says, "" if there is no key.
func holderValue(tb testing.TB, server *redistest.Server, name string) string {
	tb.Helper()
	value, _ := server.MustDo(tb, "GET", locktest.Key(name)).(string)
	return value
}

// isHeld reports whether the server says that the lock is held.
func isHeld(tb testing.TB, server *redistest.Server, name string) bool {
	tb.Helper()
	return locktest.IsHeld(holderValue(tb, server, name))
}

// awaitListening returns when the one session that has taken a lock on the server, and done nothing
// else, subscribes to its own channel and has asked for what it may have missed: from there on
// messages alone notify it.
func awaitListening(tb testing.TB, server *redistest.Server) {
	tb.Helper()
	redistest.Await(tb, "a session that listens and has asked", func() bool {
		return server.CommandStats()["get"].Calls >= 2 // the acquire's, and the question's, which is repeated if it has no reply
	})
}

// stacks returns the stacks of all goroutines.
func stacks() string {
	text := make([]byte, 1<<20)
	return string(text[:runtime.Stack(text, true)])
}

// thisGoroutine returns what stacks call the caller: "goroutine 7".
func thisGoroutine() string {
	text := make([]byte, 100)
	name, _, _ := strings.Cut(string(text[:runtime.Stack(text, false)]), " [")
	return name
}

// matchAcquires lets a proxy match the acquires of locks only.
func matchAcquires(proxy *redistest.Proxy) {
	proxy.SetMatch(locktest.RunsScript(scripts.LockEnter))
	proxy.ResetCount()
}
