// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// P10: after any refusal: a hold that cannot be released now may be released later.
func TestUndoSurvivesRefusals(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.MustDo(t, "ACL", "SETUSER", "default", "-time")
	un := newUndoer(t, server)
	var replies atomic.Int64
	un.Start(countingUndo(&replies, time.Hour))
	redistest.Await(t, "a few tries", func() bool { return server.CommandStats()["evalsha"].Calls >= 3 })
	require.Zero(t, replies.Load())
	server.MustDo(t, "ACL", "SETUSER", "default", "+time")
	redistest.Await(t, "the end of the undo", func() bool { return un.Pending() == 0 })
	require.Equal(t, int64(1), replies.Load())
}

// P4: an undo is given up when the key has ended by itself.
func TestUndoIsGivenUpWhenTheKeyExpires(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	un := newUndoer(t, proxy)
	proxy.Refuse()
	proxy.CutAll()
	var replies, over atomic.Int64
	undo := countingUndo(&replies, 50*time.Millisecond)
	undo.OnDone = func(error) { over.Add(1) }
	un.Start(undo)
	redistest.Await(t, "the end of the undo", func() bool { return un.Pending() == 0 })
	require.Zero(t, replies.Load())
	require.Equal(t, int64(1), over.Load())
}

// P4: Close waits until every undo is done.
func TestCloseWaitsForUndos(t *testing.T) {
	t.Parallel()
	un := newUndoer(t, redistest.Start(t))
	var replies atomic.Int64
	for range 300 { // more than one pipeline
		un.Start(countingUndo(&replies, time.Hour))
	}
	un.Close(t.Context())
	require.Zero(t, un.Pending())
	require.Equal(t, int64(300), replies.Load())
}

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
		Call:  wire.Call{Script: wire.HelloScript, Keys: []string{"sb:{a}:lock"}},
		Until: timers.Now().Add(until),
		OnReply: func(wire.Reply) time.Duration {
			replies.Add(1)
			return 0
		},
	}
}
