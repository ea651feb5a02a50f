// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"testing"

	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

func TestMain(m *testing.M) { redistest.VerifyTestMain(m) }

// newSession returns a session on a connection of its own, closed when the test ends.
func newSession(tb testing.TB, to redistest.Dialer) *session.Session {
	tb.Helper()
	return (*session.Handle)(locktest.SteadySession(tb, to)).Session()
}
