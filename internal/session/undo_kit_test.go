// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// newUndoer returns an Undoer at a server, or at a proxy before one. It is closed when the test ends.
func newUndoer(tb testing.TB, at redistest.Dialer) *session.Undoer {
	tb.Helper()
	t := timers.New()
	un := session.NewUndoer(wire.NewRunner(at.Client(tb, signalbox.Tune)), t)
	tb.Cleanup(func() {
		un.Close(locktest.Ended())
		un.Stop()
		t.Close()
	})
	return un
}

// countingUndo returns an undo that asks the server for its time, and counts the replies.
func countingUndo(replies *atomic.Int64, until time.Duration) *session.Undo {
	return &session.Undo{
		Call:  wire.Call{Script: scripts.SessionHello, Keys: []string{"sb:{a}:lock"}},
		Until: clock.Now().Add(until),
		OnReply: func(wire.Reply) time.Duration {
			replies.Add(1)
			return 0
		},
	}
}
