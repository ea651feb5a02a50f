// SPDX-License-Identifier: Apache-2.0

package semaphore_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/scripts"
	"github.com/signalbox-go/signalbox/semaphore"
)

const (
	// patience is how long a test waits for what must happen. It is reached by failing tests only.
	patience = 20 * time.Second
	// shortest is the shortest lease that there is.
	shortest = 100 * time.Millisecond
	// steady is a lease that goes on though the machine stalls for seconds: it is renewed each two, and has four left then.
	steady = 6 * time.Second
	// delay is longer than it takes to give a call up that is delayed, and shorter than a client bears with a silent wire.
	delay = 1500 * time.Millisecond
)

// The keys of the semaphore "a".
const permitsKey, lineKey, livesKey = "sb:{a}:permits", "sb:{a}:permits:line", "sb:{a}:permits:lives"

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

// watchedContext tells when somebody begins to listen for its end: who waits among those of its session does so after it
// has taken its place there.
type watchedContext struct {
	context.Context

	listened chan struct{}
	once     sync.Once
}

func (w *watchedContext) Done() <-chan struct{} {
	w.once.Do(func() { close(w.listened) })
	return w.Context.Done()
}

// queueHere acquires on another goroutine, and returns when that waits behind another of its session.
func queueHere(ctx context.Context, tb testing.TB, sem *semaphore.Semaphore, n int) <-chan outcome {
	tb.Helper()
	w := &watchedContext{Context: ctx, listened: make(chan struct{})}
	answered := acquireLater(w, sem, n)
	within(tb, "a place in the queue", w.listened)
	return answered
}

// stand acquires on another goroutine, and returns when that stands in line as the first, and all of its session queue
// behind it.
func stand(ctx context.Context, tb testing.TB, server *redistest.Server, sem *semaphore.Semaphore) <-chan outcome {
	tb.Helper()
	await(tb, "an empty line", func() bool { return inLine(tb, server) == 0 })
	answered := queue(ctx, tb, server, sem, 1, 1)
	await(tb, "that it knows of its place", sem.Waits)
	return answered
}

// crowd acquires on n goroutines, of which the first stands in line as the first and the others wait behind it.
func crowd(tb testing.TB, server *redistest.Server, sem *semaphore.Semaphore, n int) []<-chan outcome {
	tb.Helper()
	waiting := []<-chan outcome{stand(tb.Context(), tb, server, sem)}
	for range n - 1 {
		waiting = append(waiting, queueHere(tb.Context(), tb, sem, 1))
	}
	return waiting
}

// holdFor waits for so long.
func holdFor(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
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

// deadlineOf answers until when a lease can be trusted. A single look may be held up between the two clocks that it
// compares, and then tells too much.
func deadlineOf(lease signalbox.Lease) time.Time {
	ends := lease.Deadline()
	for range 100 {
		if look := lease.Deadline(); look.Before(ends) {
			ends = look
		}
	}
	return ends
}

// closesClean closes a session that is in use, with a context that has ended or with one that lasts, and checks that nothing
// of it is left on the server. With an ended one it has a second to give all back: what it left on a machine that
// stood still for longer ends with the leases.
func closesClean(tb testing.TB, server *redistest.Server, s *signalbox.Session, ended bool) { //nolint:revive // a case of the test
	tb.Helper()
	ctx := tb.Context()
	if ended {
		ctx = endedContext()
	}
	began := time.Now()
	_ = s.Close(ctx)
	if !ended || time.Since(began) < time.Second {
		require.Zero(tb, out(tb, server))
		require.Zero(tb, inLine(tb, server))
	}
	await(tb, "the end of it on the server", func() bool { return out(tb, server) == 0 && inLine(tb, server) == 0 })
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

// sentBy answers how often each command ran while do did.
func sentBy(server *redistest.Server, do func()) map[string]int64 { return server.SentBy(do) }

// givesBack unlocks. On a machine that is busy that may be confirmed later.
func givesBack(lease signalbox.Lease) error {
	err := lease.Unlock()
	if errors.Is(err, signalbox.ErrUnconfirmed) {
		return nil
	}
	return err
}

// inAnyOrder answers the tokens of all who wait, each of whom gives back what it gets: most of them at once have something.
func inAnyOrder(t *testing.T, most int64, waiting []<-chan outcome) []uint64 {
	t.Helper()
	served := make(chan outcome, len(waiting))
	var has atomic.Int64
	for _, w := range waiting {
		go func() {
			got := <-w
			if got.err == nil {
				if n := has.Add(1); n > most {
					t.Errorf("%d have something", n)
				}
				has.Add(-1)
				got.err = givesBack(got.lease)
			}
			served <- got
		}()
	}
	var tokens []uint64
	for range waiting {
		got := within(t, "the permit", served)
		require.NoError(t, got.err)
		tokens = append(tokens, got.lease.Token())
	}
	return tokens
}
