// SPDX-License-Identifier: Apache-2.0

package fair_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/scripts"
)

const (
	// patience is how long a test waits for what must happen. It is reached by failing tests only.
	patience = 20 * time.Second
	// limit is how long a test waits for the turns of many. It is reached by failing tests only.
	limit = 3 * time.Minute
	// shortest is the shortest lease that there is.
	shortest = 100 * time.Millisecond
	// prepaid is for how long a hold lasts on the server that was granted to a waiter.
	prepaid = 3 * time.Second
	// steady is a lease that goes on though the machine stalls for seconds: it is renewed each two, and has four left then.
	steady = 6 * time.Second
	// moment is how long a call waits that is to be told something before its context ends.
	moment = 3 * time.Second
	// delay is longer than it takes to give a call up that is delayed, and shorter than a client bears with a silent wire.
	delay = 1500 * time.Millisecond
)

// dialer is a server, or a proxy before one.
type dialer = redistest.Dialer

// newSession answers a session on a connection of its own, as another process would have it, whose Unlock waits for a busy
// machine as well. It is closed when the test ends, whatever is still held.
func newSession(tb testing.TB, at dialer, options ...signalbox.SessionOption) *signalbox.Session {
	tb.Helper()
	s := signalbox.NewSession(at.Client(tb, func(o *rueidis.ClientOption) {
		signalbox.Tune(o)
		o.PipelineMultiplex = -1 // so that none has to be made while the server is frozen
	}), options...)
	(*session.Session)(s).UnlockPatience = patience
	tb.Cleanup(func() { _ = s.Close(endedContext()) })
	return s
}

// newPoller answers a session that sends nothing by itself, so that what it is asked for can be counted: one that
// listens begins to do so when it has held a lock for a while.
func newPoller(tb testing.TB, at dialer) *signalbox.Session {
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

// isClosed reports whether c is closed, or has something.
func isClosed[T any](c <-chan T) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// outcome is what a call of Lock answered.
type outcome struct {
	lease signalbox.Lease
	err   error
}

// lockLater locks on another goroutine.
func lockLater(ctx context.Context, mu *fair.Lock) <-chan outcome {
	answered := make(chan outcome, 1)
	go func() {
		lease, err := mu.Lock(ctx)
		answered <- outcome{lease, err}
	}()
	return answered
}

// queue locks on another goroutine, and returns when that stands in line as the n-th.
func queue(ctx context.Context, tb testing.TB, server *redistest.Server, mu *fair.Lock, name string, n int) <-chan outcome {
	tb.Helper()
	answered := lockLater(ctx, mu)
	await(tb, "a place in line", func() bool { return inLine(tb, server, name) == n })
	return answered
}

// mustLock locks at once.
func mustLock(tb testing.TB, mu *fair.Lock) signalbox.Lease {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	lease, err := mu.Lock(ctx)
	require.NoError(tb, err)
	return lease
}

// mustHave answers the lease of a lock that was waited for.
func mustHave(tb testing.TB, answered <-chan outcome) signalbox.Lease {
	tb.Helper()
	got := within(tb, "the lock", answered)
	require.NoError(tb, got.err)
	return got.lease
}

func holderKey(name string) string { return "sb:{" + name + "}:lock" }

// isHeld reports whether a plain name is held, by the server's account.
func isHeld(tb testing.TB, server *redistest.Server, name string) bool {
	tb.Helper()
	value, _ := server.MustDo(tb, "GET", holderKey(name)).(string)
	return strings.HasPrefix(value, "sb1f") && time.UnixMicro(integer(tb, value[61:77])).After(serverTime(tb, server))
}

// until answers when the hold of a plain name ends, by the server's clock.
func until(tb testing.TB, server *redistest.Server, name string) time.Time {
	tb.Helper()
	value, _ := server.MustDo(tb, "GETRANGE", holderKey(name), 61, 76).(string)
	return time.UnixMicro(integer(tb, value))
}

// holdID answers who has a plain name, by the server's account.
func holdID(tb testing.TB, server *redistest.Server, name string) any {
	tb.Helper()
	return server.MustDo(tb, "GETRANGE", holderKey(name), 20, 60)
}

func serverTime(tb testing.TB, server *redistest.Server) time.Time {
	tb.Helper()
	parts, _ := server.MustDo(tb, "TIME").([]any)
	require.Len(tb, parts, 2)
	return time.Unix(integer(tb, parts[0]), 1000*integer(tb, parts[1]))
}

// inLine answers how many stand in line for a plain name.
func inLine(tb testing.TB, server *redistest.Server, name string) int {
	tb.Helper()
	return int(integer(tb, server.MustDo(tb, "ZCARD", "sb:{"+name+"}:line")))
}

// requests lets a proxy count those of one script.
func requests(proxy *redistest.Proxy, script *scripts.Script) {
	proxy.SetMatch(func(request []string) bool {
		return len(request) > 1 && (request[1] == script.SHA1 || request[1] == script.Source)
	})
}

// sentBy answers how often each command ran while do did.
func sentBy(server *redistest.Server, do func()) map[string]int64 { return server.SentBy(do) }
