// SPDX-License-Identifier: Apache-2.0

package reentrant_test

import (
	"testing"
	"time"

	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
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
