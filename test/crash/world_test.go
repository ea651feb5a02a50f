// SPDX-License-Identifier: Apache-2.0

package crash_test

import (
	"testing"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/test/kit"
)

// world is a server with somebody who does not crash.
type world struct {
	server  *redistest.Server
	session *signalbox.Session
	view    *kit.View
	serial  int // of names
}

func newWorld(t *testing.T) *world {
	t.Helper()
	server := redistest.Start(t)
	return &world{server: server, session: kit.Session(t, server), view: kit.NewView(t, server)}
}
