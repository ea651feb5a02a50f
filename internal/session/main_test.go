// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"go.uber.org/goleak"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/settings"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must happen. It is reached by failing tests only.
const patience = 20 * time.Second

// newSession answers a session on a connection of its own, closed when the test ends.
func newSession(tb testing.TB, at interface {
	Client(tb testing.TB, mod func(*rueidis.ClientOption)) rueidis.Client
},
) *session.Session {
	tb.Helper()
	s := session.New(at.Client(tb, signalbox.Tune), settings.Default(), false)
	tb.Cleanup(func() { _ = s.Close(endedContext()) })
	return s
}

// endedContext answers a context that has ended.
func endedContext() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// await polls until done, which asks for something that must come true.
func await(tb testing.TB, what string, done func() bool) {
	tb.Helper()
	redistest.Await(tb, what, done)
}

// within waits for the end of something.
func within(tb testing.TB, what string, c <-chan struct{}) {
	tb.Helper()
	redistest.Receive(tb, what, c)
}
