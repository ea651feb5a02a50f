// SPDX-License-Identifier: Apache-2.0

package countdown_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/countdown"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/scripts"
)

// patience is how long a test waits for what must happen. It is reached by failing tests only.
const patience = 20 * time.Second

// dialer is a server, or a proxy before one.
type dialer = redistest.Dialer

// newSession answers a session on a connection of its own, as another process would have it. It
// is closed when the test ends.
func newSession(tb testing.TB, at dialer, options ...signalbox.SessionOption) *signalbox.Session {
	tb.Helper()
	s := signalbox.NewSession(at.Client(tb, func(o *rueidis.ClientOption) {
		signalbox.Tune(o)
		o.PipelineMultiplex = -1 // so that none has to be made while the server is frozen
	}), options...)
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

// within receives what must come.
func within[T any](tb testing.TB, what string, c <-chan T) T {
	tb.Helper()
	return redistest.Receive(tb, what, c)
}

// soon answers a context that ends after patience, or with the test.
func soon(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	tb.Cleanup(cancel)
	return ctx
}

// mustStart begins a round.
func mustStart(tb testing.TB, l *countdown.Latch, n int) countdown.Round {
	tb.Helper()
	r, err := l.Start(soon(tb), n)
	require.NoError(tb, err)
	require.NotZero(tb, r.ID())
	return r
}

// mustCount counts ids down, of which each opens the round further.
func mustCount(tb testing.TB, r countdown.Round, left int, id string) {
	tb.Helper()
	got, err := r.CountDown(soon(tb), id)
	require.NoError(tb, err)
	require.Equal(tb, left, got)
}

// waitLater waits for a round on another goroutine.
func waitLater(ctx context.Context, r countdown.Round) <-chan error {
	answered := make(chan error, 1)
	go func() { answered <- r.Wait(ctx) }()
	return answered
}

// listening waits for a round on another goroutine, and returns when the session would hear of its end, and nothing
// else will tell for about a second.
func listening(tb testing.TB, s *signalbox.Session, r countdown.Round, name string) <-chan error {
	tb.Helper()
	answered := waitLater(soon(tb), r)
	await(tb, "a subscription", func() bool { return (*session.Session)(s).Dispatch.IsLive(latchKey(name) + ":ended") })
	return answered
}

// awaitSilence waits until a session listens to nothing, by its own account and by that of the server, which knows of nobody
// else.
func awaitSilence(tb testing.TB, server *redistest.Server, s *signalbox.Session) {
	tb.Helper()
	await(tb, "the end of the subscription", func() bool {
		channels, _ := server.MustDo(tb, "PUBSUB", "CHANNELS").([]any)
		return (*session.Session)(s).Dispatch.Channels() == 0 && len(channels) == 0
	})
}

// isSilent reports whether nothing was answered so far.
func isSilent[T any](c <-chan T) bool { return len(c) == 0 }

// latchKey is the key of a plain name.
func latchKey(name string) string { return "sb:{" + name + "}:latch" }

// round answers what the key of a plain name says of its newest round: the layout, its stamp and how it stands.
func round(tb testing.TB, server *redistest.Server, name string) string {
	tb.Helper()
	value, _ := server.MustDo(tb, "HGET", latchKey(name), "round").(string)
	return value[:min(20, len(value))]
}

// requireEnds checks that every key has an end.
func requireEnds(tb testing.TB, server *redistest.Server) {
	tb.Helper()
	for _, key := range server.Keys("*") {
		require.Positive(tb, server.MustDo(tb, "PTTL", key), "%s has no end", key)
	}
}

// runs lets a proxy count, and strike, the requests that run a script.
func runs(proxy *redistest.Proxy, these ...*scripts.Script) {
	proxy.SetMatch(func(request []string) bool {
		for _, script := range these {
			if len(request) > 1 && (request[1] == script.SHA1 || request[1] == script.Source) {
				return true
			}
		}
		return false
	})
}

// sentBy answers how often each command ran while do did.
func sentBy(server *redistest.Server, do func()) map[string]int64 { return server.SentBy(do) }

// ids answers the n first ids.
func ids(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprint("id/", i)
	}
	return all
}

// longest is the longest id.
var longest = strings.Repeat("\x00", countdown.MaxID)
