// SPDX-License-Identifier: Apache-2.0

package crash_test

import (
	"testing"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// fixture is a server with a client that does not crash.
type fixture struct {
	server  *redistest.Server
	session *signalbox.Session
	view    *locktest.View
	serial  int // the number of names so far
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	server := redistest.Start(t)
	return &fixture{server: server, session: locktest.Session(t, server), view: locktest.NewView(t, server)}
}
