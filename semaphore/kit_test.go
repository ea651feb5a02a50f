// SPDX-License-Identifier: Apache-2.0

package semaphore_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/scripts"
	"github.com/signalbox-go/signalbox/semaphore"
)

const (
	// patience is how long a test waits for what must happen. It is reached by failing tests only.
	patience = 20 * time.Second
	// shortest is the shortest lease that there is.
	shortest = 100 * time.Millisecond
)

// The keys of the semaphore "a".
const permitsKey, lineKey, livesKey = "sb:{a}:permits", "sb:{a}:permits:line", "sb:{a}:permits:lives"

// dialer is a server, or a proxy before one.
type dialer interface {
	Client(tb testing.TB, mod func(*rueidis.ClientOption)) rueidis.Client
}

// newSession answers a session on a connection of its own, as another process would have it. It
// is closed when the test ends, whatever is still held.
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
	deadline := time.Now().Add(patience)
	pause := time.NewTicker(2 * time.Millisecond)
	defer pause.Stop()
	for !done() {
		if time.Now().After(deadline) {
			tb.Fatalf("not within %v: %s", patience, what)
		}
		<-pause.C
	}
}

// within receives what must come.
func within[T any](tb testing.TB, what string, c <-chan T) T {
	tb.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case v := <-c:
		return v
	case <-timer.C:
		tb.Fatalf("not within %v: %s", patience, what)
		panic("unreachable")
	}
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

// outcome is what a call of Acquire answered.
type outcome struct {
	lease signalbox.Lease
	err   error
}

// acquireLater acquires on another goroutine.
func acquireLater(ctx context.Context, sem *semaphore.Semaphore, n int) <-chan outcome {
	answered := make(chan outcome, 1)
	go func() {
		lease, err := sem.Acquire(ctx, n)
		answered <- outcome{lease, err}
	}()
	return answered
}

// queue acquires on another goroutine, and returns when that stands in line as the at-th.
func queue(ctx context.Context, tb testing.TB, server *redistest.Server, sem *semaphore.Semaphore, n, at int) <-chan outcome {
	tb.Helper()
	answered := acquireLater(ctx, sem, n)
	await(tb, "a place in line", func() bool { return inLine(tb, server) == at })
	return answered
}

// mustAcquire acquires what must come.
func mustAcquire(tb testing.TB, sem *semaphore.Semaphore, n int) signalbox.Lease {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	lease, err := sem.Acquire(ctx, n)
	require.NoError(tb, err)
	return lease
}

// mustHave answers the lease of permits that were waited for.
func mustHave(tb testing.TB, answered <-chan outcome) signalbox.Lease {
	tb.Helper()
	got := within(tb, "the permits", answered)
	require.NoError(tb, got.err)
	return got.lease
}

// out answers the sum of all permits that are held on the server, which counts them itself.
func out(tb testing.TB, server *redistest.Server) int {
	tb.Helper()
	return int(integer(tb, server.MustDo(tb, "EVAL", `
local time, used = redis.call('TIME'), 0
local now = time[1] .. string.sub('00000' .. time[2], -6)
for _, name in ipairs(redis.call('ZRANGE', KEYS[1], '(' .. now, '+inf', 'BYSCORE')) do
  used = used + tonumber(string.sub(name, 42, 51))
end
return used`, 1, permitsKey)))
}

// inLine answers how many stand in line.
func inLine(tb testing.TB, server *redistest.Server) int {
	tb.Helper()
	return int(integer(tb, server.MustDo(tb, "ZCARD", lineKey)))
}

// available answers how many permits are free.
func available(tb testing.TB, sem *semaphore.Semaphore) int {
	tb.Helper()
	n, err := sem.Available(tb.Context())
	require.NoError(tb, err)
	return n
}

func serverTime(tb testing.TB, server *redistest.Server) time.Time {
	tb.Helper()
	parts, _ := server.MustDo(tb, "TIME").([]any)
	require.Len(tb, parts, 2)
	return time.Unix(integer(tb, parts[0]), 1000*integer(tb, parts[1]))
}

func integer(tb testing.TB, reply any) int64 {
	tb.Helper()
	switch v := reply.(type) {
	case int64:
		return v
	case string:
		n, err := strconv.ParseInt(v, 10, 64)
		require.NoError(tb, err)
		return n
	}
	require.FailNow(tb, "no integer", "%v", reply)
	return 0
}

// requests lets a proxy count those of one script.
func requests(proxy *redistest.Proxy, script *scripts.Script) {
	proxy.SetMatch(func(request []string) bool {
		return len(request) > 1 && (request[1] == script.SHA1 || request[1] == script.Source)
	})
}

// sentBy answers which commands a function made the server run, those of scripts included, and
// the client's own pings left out.
func sentBy(server *redistest.Server, do func()) map[string]int64 {
	before := server.CommandStats()
	do()
	sent := make(map[string]int64)
	for command, stat := range server.CommandStats() {
		if n := stat.Calls - before[command].Calls; n > 0 && command != "info" && command != "ping" {
			sent[command] = n
		}
	}
	return sent
}
