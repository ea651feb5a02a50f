// SPDX-License-Identifier: Apache-2.0

package reentrant_test

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/scripts"
)

// patience is how long a test waits for what must happen. It is reached by failing tests only.
const patience = 20 * time.Second

// shortest and longest are the shortest lease that there is and the longest, which is not renewed
// before any test is over.
const (
	shortest = 100 * time.Millisecond
	longest  = 24 * time.Hour
)

const (
	// steady is a lease that goes on though the machine stalls for seconds: it is renewed each two, and has four left then.
	steady = 6 * time.Second
	// moment is how long a call waits that is to be told something before its context ends.
	moment = 3 * time.Second
	// delay is longer than it takes to give a call up that is delayed, and shorter than a client bears with a silent wire.
	delay = 1500 * time.Millisecond
)

// wire is a server, or a proxy before one.
type wire interface {
	Client(tb testing.TB, mod func(*rueidis.ClientOption)) rueidis.Client
}

// oneConnection is a server to which a client makes one connection for commands, so that
// none has to be made while the server is frozen.
type oneConnection struct{ wire }

func (o oneConnection) Client(tb testing.TB, mod func(*rueidis.ClientOption)) rueidis.Client {
	tb.Helper()
	return o.wire.Client(tb, func(option *rueidis.ClientOption) {
		mod(option)
		option.PipelineMultiplex = -1
	})
}

// newSession answers a session on a connection of its own, as another process would have it, whose Unlock waits for a busy
// machine as well. It is closed when the test ends, whatever is still held.
func newSession(tb testing.TB, at wire, options ...signalbox.SessionOption) *signalbox.Session {
	tb.Helper()
	s := signalbox.NewSession(at.Client(tb, signalbox.Tune), options...)
	(*session.Session)(s).UnlockPatience = patience
	tb.Cleanup(func() { _ = s.Close(endedContext()) })
	return s
}

// impatient lets Unlock wait for no longer than it does for others, a second.
func impatient(s *signalbox.Session) *signalbox.Session {
	(*session.Session)(s).UnlockPatience = session.UnlockPatience
	return s
}

// newPoller answers a session that sends nothing by itself, so that what it is asked for can be counted: one that
// listens begins to do so when it has held a lock for a while.
func newPoller(tb testing.TB, at wire) *signalbox.Session {
	tb.Helper()
	return newSession(tb, at, signalbox.WithPolling())
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

// outcome is what a call of Lock answered.
type outcome struct {
	lease signalbox.Lease
	err   error
}

// lockLater locks on another goroutine.
func lockLater(ctx context.Context, mu *reentrant.Lock) <-chan outcome {
	answered := make(chan outcome, 1)
	go func() {
		lease, err := mu.Lock(ctx)
		answered <- outcome{lease, err}
	}()
	return answered
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

// watchedContext tells when somebody begins to listen for its end: a Lock that waits does so
// after it has taken its place in the queue, or as it sends its try.
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
// session, behind a holder or a contender.
func queue(ctx context.Context, tb testing.TB, mu *reentrant.Lock) <-chan outcome {
	tb.Helper()
	w := watched(ctx)
	answered := lockLater(w, mu)
	within(tb, "a place in the queue", w.listened)
	return answered
}

// contend locks on another goroutine and returns when the server knows of its session's wish.
// The lock is held by another session.
func contend(ctx context.Context, tb testing.TB, server *redistest.Server, mu *reentrant.Lock, name string) <-chan outcome {
	tb.Helper()
	answered := lockLater(ctx, mu)
	await(tb, "a waiter's mark and its subscription", func() bool {
		return isMarked(holderValue(tb, server, name)) && subscribers(tb, server, name) > 0
	})
	return answered
}

// holderKey is the key that says who holds a plain name.
func holderKey(name string) string { return "sb:{" + name + "}:lock" }

// holderValue answers what the holder key of a plain name says, "" where there is none.
func holderValue(tb testing.TB, server *redistest.Server, name string) string {
	tb.Helper()
	value, _ := server.MustDo(tb, "GET", holderKey(name)).(string)
	return value
}

// isMarked reports whether what a holder key says names a session that waits.
func isMarked(value string) bool {
	return strings.HasPrefix(value, "sb1r") && value[61:83] != strings.Repeat("-", 22)
}

// isHeld reports whether a plain name is held, by the server's account.
func isHeld(tb testing.TB, server *redistest.Server, name string) bool {
	tb.Helper()
	return strings.HasPrefix(holderValue(tb, server, name), "sb1r")
}

// subscribers answers how many connections listen for the release of a plain name.
func subscribers(tb testing.TB, server *redistest.Server, name string) int64 {
	tb.Helper()
	return listeners(tb, server, "sb:{"+name+"}:lock:unlocked")
}

// listeners answers how many connections listen on a channel.
func listeners(tb testing.TB, server *redistest.Server, channel string) int64 {
	tb.Helper()
	reply, _ := server.MustDo(tb, "PUBSUB", "NUMSUB", channel).([]any)
	require.Len(tb, reply, 2)
	return reply[1].(int64)
}

// sessionChannel is where a session is told of what befell its holds.
func sessionChannel(id string) string { return "sb:session:" + id }

// awaitListening returns when the one session that has taken a lock on the server, and done nothing
// else, listens on its own channel and has asked for what it may have missed: from there on
// messages alone tell it.
func awaitListening(tb testing.TB, server *redistest.Server) {
	tb.Helper()
	await(tb, "a session that listens and has asked", func() bool {
		return server.CommandStats()["get"].Calls == 2 // the acquire's, and the question's
	})
}

// sentBy answers how often each command ran while do did.
func sentBy(server *redistest.Server, do func()) map[string]int64 { return server.SentBy(do) }

// stacks answers the stacks of all goroutines.
func stacks() string {
	text := make([]byte, 1<<20)
	return string(text[:runtime.Stack(text, true)])
}

// thisGoroutine answers what stacks call the caller: "goroutine 7".
func thisGoroutine() string {
	text := make([]byte, 100)
	name, _, _ := strings.Cut(string(text[:runtime.Stack(text, false)]), " [")
	return name
}

// onlyAcquires lets a proxy count the acquires of locks, and no looks, from here on. Somebody has taken one before.
func onlyAcquires(proxy *redistest.Proxy) {
	proxy.SetMatch(func(request []string) bool { return len(request) > 1 && request[1] == scripts.ReentrantAcquire.SHA1 })
	proxy.ResetCount()
}

// integer reads a number out of a reply, where it may be a text.
func integer(tb testing.TB, reply any) int64 {
	tb.Helper()
	n, err := strconv.ParseInt(fmt.Sprint(reply), 10, 64)
	require.NoError(tb, err)
	return n
}

// clientAs answers a client of another user.
func clientAs(tb testing.TB, server *redistest.Server, user, password string) rueidis.Client {
	tb.Helper()
	return server.Client(tb, func(o *rueidis.ClientOption) {
		signalbox.Tune(o)
		o.Username, o.Password = user, password
	})
}
