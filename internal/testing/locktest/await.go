// SPDX-License-Identifier: Apache-2.0

package locktest

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// Context returns a context that ends with the test, and after redistest.WaitLimit.
func Context(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), redistest.WaitLimit)
	tb.Cleanup(cancel)
	return ctx
}

// Ended returns a context that has ended.
func Ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// Result is what a call returned.
type Result[T any] struct {
	Value T
	Err   error
}

// Later runs a call on another goroutine.
func Later[T any](call func() (T, error)) <-chan Result[T] {
	returned := make(chan Result[T], 1)
	go func() {
		value, err := call()
		returned <- Result[T]{value, err}
	}()
	return returned
}

// LaterWith is Later for a method whose argument is a context: LaterWith(ctx, mu.Lock).
func LaterWith[T any](ctx context.Context, call func(ctx context.Context) (T, error)) <-chan Result[T] {
	return Later(func() (T, error) { return call(ctx) })
}

// Must returns what a call returns now: Must(t, mu.Lock).
func Must[T any](tb testing.TB, call func(ctx context.Context) (T, error)) T {
	tb.Helper()
	value, err := call(Context(tb))
	require.NoError(tb, err)
	return value
}

// MustHave returns the value of a call that was made by Later, and fails the test if it returned an error.
func MustHave[T any](tb testing.TB, returned <-chan Result[T]) T {
	tb.Helper()
	got := redistest.Receive(tb, "the return of a call", returned)
	require.NoError(tb, got.Err)
	return got.Value
}

// MustFail returns the error of a call that was made by Later, and fails the test if it returned none, or a value beside it.
func MustFail[T any](tb testing.TB, returned <-chan Result[T]) error {
	tb.Helper()
	got := redistest.Receive(tb, "the error of a call", returned)
	require.Error(tb, got.Err)
	require.Zero(tb, got.Value)
	return got.Err
}

// IsClosed reports whether c is closed, or has a value to receive, which it then receives.
func IsClosed[T any](c <-chan T) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// WatchedContext is a context that reports when a call begins to wait for its end: a call that waits in the queue of its session
// does so after it has its place there.
type WatchedContext struct {
	context.Context //nolint:containedctx // it is one

	Waiting <-chan struct{} // closed by the first call of Done: the call waits
	waiting func()
}

// Watch returns ctx, watched.
func Watch(ctx context.Context) *WatchedContext {
	listened := make(chan struct{})
	return &WatchedContext{Context: ctx, Waiting: listened, waiting: sync.OnceFunc(func() { close(listened) })}
}

// Done implements context.Context.
func (w *WatchedContext) Done() <-chan struct{} {
	w.waiting()
	return w.Context.Done()
}

// Queue runs a call on another goroutine, and returns when that waits in the queue of its session.
func Queue[T any](ctx context.Context, tb testing.TB, call func(ctx context.Context) (T, error)) <-chan Result[T] {
	tb.Helper()
	w := Watch(ctx)
	returned := LaterWith(w, call) //nolint:contextcheck // it has ctx in it
	redistest.Receive(tb, "a place in the queue of the session", w.Waiting)
	return returned
}

// Enqueue runs Lock of a lock on another goroutine, and returns when its session has a further ticket in the lock's queue,
// and listens to its grants.
func Enqueue[T any](
	ctx context.Context, tb testing.TB, server *redistest.Server, name string,
	lock func(ctx context.Context) (T, error),
) <-chan Result[T] {
	tb.Helper()
	before := Tickets(tb, server, name)
	returned := LaterWith(ctx, lock)
	redistest.Await(tb, "a ticket, and its session listens", func() bool {
		last, _ := server.MustDo(tb, "ZRANGE", Keys(name).QueueKey(), -1, -1).([]any)
		return Tickets(tb, server, name) > before && len(last) == 1 &&
			Listeners(tb, server, proto.Grants(proto.DefaultPrefix)+fmt.Sprint(last[0])[:proto.SessionSize]) > 0
	})
	return returned
}

// Tickets returns how many tickets the queue of a lock has.
func Tickets(tb testing.TB, server *redistest.Server, name string) int {
	tb.Helper()
	return Count(tb, server, "ZCARD", Keys(name).QueueKey())
}

// Together runs n functions at the same time, waits for all of them, and fails the test with
// every error. It is for things that mostly wait: parallel tests run as many as there are
// processors.
func Together(tb testing.TB, n int, run func(i int) error) {
	tb.Helper()
	var group sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		group.Go(func() { errs[i] = run(i) })
	}
	group.Wait()
	for i, err := range errs {
		if err != nil {
			tb.Errorf("%d: %v", i, err)
		}
	}
	if tb.Failed() {
		tb.FailNow()
	}
}

// PanicOf returns the error that a function panics with, nil if it does not panic.
func PanicOf(do func()) (err error) {
	defer func() { err, _ = recover().(error) }()
	do()
	return nil
}

// longestBubble is how long a test in virtual time may take: renewals of two days are a few seconds of real time.
const longestBubble = 48 * time.Hour

// Bubble runs a test in virtual time, as synctest.Test does. It begins after the time that tokens count from, which is later than the
// first moment of a bubble. A test that waits for what never happens does not end by itself while renewals or polls go
// on: it panics, with its name, after two days of virtual time.
func Bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, time.March, 1, 0, 0, 0, 0, time.UTC))) //nolint:forbidigo // virtual time
		limit := time.AfterFunc(longestBubble, func() {                              //nolint:forbidigo // virtual time
			panic(fmt.Sprintf("%s has run for %v of virtual time: what it waits for does not happen", t.Name(), longestBubble))
		})
		defer limit.Stop()
		test(t)
	})
}

// Goroutines returns how many goroutines of the library the caller's bubble has, without those by which the client reads a connection.
func Goroutines() int {
	return GoroutinesThat(func(calls string) bool {
		calls = strings.ReplaceAll(calls, "signalbox/internal/testing/", "")
		return strings.Contains(calls, "signalbox/internal/") && !strings.Contains(calls, "wire.(*conn).Read")
	})
}

// GoroutinesThat returns how many goroutines of the caller's bubble have such a stack.
func GoroutinesThat(is func(calls string) bool) (n int) {
	stacks := make([]byte, 1<<20)
	size := runtime.Stack(stacks, true)
	for ; size == len(stacks); size = runtime.Stack(stacks, true) {
		stacks = make([]byte, 2*len(stacks))
	}
	all := string(stacks[:size])
	header, _, _ := strings.Cut(all, "\n")    // that of the caller comes first
	_, bubble, _ := strings.Cut(header, ", ") // "goroutine 9 [running, synctest bubble 1]:"
	for stack := range strings.SplitSeq(all, "\n\n") {
		header, calls, _ := strings.Cut(stack, "\n")
		if strings.HasSuffix(header, ", "+bubble) && is(calls) {
			n++
		}
	}
	return n
}
