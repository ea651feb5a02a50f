// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// patience is how long a test waits for what must happen. It is reached by failing tests only.
const patience = 20 * time.Second

const (
	// shortest is the shortest lease that there is.
	shortest = 100 * time.Millisecond
	// steady is a lease that goes on though the machine stalls for seconds: it is renewed each two, and has four left then.
	steady = 6 * time.Second
	// moment is how long a call waits that is to be told something before its context ends.
	moment = 3 * time.Second
)

// wire is a server, or a proxy before one.
type wire interface {
	Client(tb testing.TB, mod func(*rueidis.ClientOption)) rueidis.Client
}

// newSession answers a session on a connection of its own, closed when the test ends.
func newSession(tb testing.TB, at wire, options ...signalbox.SessionOption) *signalbox.Session {
	tb.Helper()
	s := signalbox.NewSession(at.Client(tb, signalbox.Tune), options...)
	tb.Cleanup(func() { _ = s.Close(endedContext()) })
	return s
}

// endedContext answers a context that has ended.
func endedContext() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// patiently returns a context with a deadline that is later than the grace of Close.
func patiently(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	tb.Cleanup(cancel)
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

// later runs a call on another goroutine.
func later(call func() error) <-chan error {
	answered := make(chan error, 1)
	go func() { answered <- call() }()
	return answered
}

// isClosed reports whether c is closed, or has something.
func isClosed[T any](c <-chan T) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// mustLock locks at once.
func mustLock(tb testing.TB, mu *reentrant.Lock) signalbox.Lease {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	lease, err := mu.Lock(ctx)
	require.NoError(tb, err)
	return lease
}

// watchedContext tells when somebody begins to listen for its end: who waits does so after
// taking its place.
type watchedContext struct {
	context.Context

	listened chan struct{}
	once     sync.Once
}

func watched(ctx context.Context) *watchedContext {
	return &watchedContext{Context: ctx, listened: make(chan struct{})}
}

func (w *watchedContext) Done() <-chan struct{} {
	w.once.Do(func() { close(w.listened) })
	return w.Context.Done()
}

// queue locks on another goroutine and returns when that goroutine waits in the queue of its
// session.
func queue(tb testing.TB, mu *reentrant.Lock) <-chan error {
	tb.Helper()
	ctx := watched(context.Background())
	answered := later(func() error {
		_, err := mu.Lock(ctx)
		return err
	})
	within(tb, "a place in the queue", ctx.listened)
	return answered
}

// contend locks on another goroutine and returns when the server knows of its session's wish.
// The lock is held by another session.
func contend(tb testing.TB, server *redistest.Server, mu *reentrant.Lock, name string) <-chan error {
	tb.Helper()
	answered := later(func() error {
		_, err := mu.Lock(context.Background())
		return err
	})
	await(tb, "a waiter's mark and its subscription", func() bool {
		channels, _ := server.MustDo(tb, "PUBSUB", "CHANNELS").([]any)
		return isMarked(holderValue(tb, server, name)) && len(channels) > 0
	})
	return answered
}

// holderValue answers what the holder key of a plain name says, "" where there is none.
func holderValue(tb testing.TB, server *redistest.Server, name string) string {
	tb.Helper()
	value, _ := server.MustDo(tb, "GET", "sb:{"+name+"}:lock").(string)
	return value
}

// isMarked reports whether what a holder key says names a session that waits.
func isMarked(value string) bool {
	return strings.HasPrefix(value, "sb1r") && value[61:83] != strings.Repeat("-", 22)
}

// held answers the keys that say that somebody holds a lock.
func held(tb testing.TB, server *redistest.Server) []string {
	tb.Helper()
	var found []string
	for _, key := range server.Keys("*") {
		if value, _ := server.MustDo(tb, "GET", key).(string); strings.HasPrefix(value, "sb1r") {
			found = append(found, key)
		}
	}
	return found
}

// sentBy answers how often each command ran while do did.
func sentBy(server *redistest.Server, do func()) map[string]int64 { return server.SentBy(do) }
