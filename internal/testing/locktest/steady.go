// SPDX-License-Identifier: Apache-2.0

package locktest

import (
	"testing"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// SteadySession is Session for tests without faults: its client tolerates a server that is
// silent for as long as a test does, so a busy machine breaks no connection.
func SteadySession(tb testing.TB, to redistest.Dialer, options ...signalbox.SessionOption) *signalbox.Session {
	tb.Helper()
	return SessionOf(tb, to.Client(tb, Steady), options...)
}
