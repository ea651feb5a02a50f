// SPDX-License-Identifier: Apache-2.0

package rwlock_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/rwlock"
	"github.com/signalbox-go/signalbox/scripts"
)

const (
	// patience is how long a test waits for what must happen. It is reached by failing tests only.
	patience = 30 * time.Second
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

// newLock answers the lock of that name in a session of its own.
func newLock(tb testing.TB, at dialer, name string, options ...signalbox.LockOption) *rwlock.Lock {
	tb.Helper()
	return rwlock.New(newSession(tb, at), name, options...)
}

// newPoller answers a session that sends nothing by itself, so that what it is asked for can be counted: one that
// listens begins to do so when it has held a lock for a while.
func newPoller(tb testing.TB, at dialer) *signalbox.Session {
	tb.Helper()
	return newSession(tb, at, signalbox.WithPolling())
}

// newPatient answers a session whose client gives no call up by itself, for wires on which an answer is kept back.
func newPatient(tb testing.TB, at dialer) *signalbox.Session {
	tb.Helper()
	s := signalbox.NewSession(at.Client(tb, func(o *rueidis.ClientOption) {
		o.ConnWriteTimeout, o.Dialer.KeepAlive = time.Hour, time.Hour
		signalbox.Tune(o)
	}))
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

// pass lets time go by, where that is what the promise is about.
func pass(d time.Duration) { <-time.NewTimer(d).C }

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

// side is a method of a lock that takes it: (*rwlock.Lock).Lock, (*rwlock.Lock).RLock or their Try forms.
type side func(*rwlock.Lock, context.Context) (signalbox.Lease, error)

// The sides of a lock.
var (
	write    side = (*rwlock.Lock).Lock
	read     side = (*rwlock.Lock).RLock
	tryWrite side = (*rwlock.Lock).TryLock
	tryRead  side = (*rwlock.Lock).TryRLock
)

// outcome is what a call answered that takes a lock.
type outcome struct {
	lease signalbox.Lease
	err   error
}

// later takes a lock on another goroutine.
func later(ctx context.Context, mu *rwlock.Lock, take side) <-chan outcome {
	answered := make(chan outcome, 1)
	go func() {
		lease, err := take(mu, ctx)
		answered <- outcome{lease, err}
	}()
	return answered
}

// queue takes a lock on another goroutine, and returns when that stands in line as the n-th, of readers and writers
// together.
func queue(ctx context.Context, tb testing.TB, server *redistest.Server, mu *rwlock.Lock, take side, n int) <-chan outcome {
	tb.Helper()
	answered := later(ctx, mu, take)
	await(tb, "a place in line", func() bool { return inLine(tb, server, "a") == n })
	return answered
}

// follow reads on another goroutine, and returns when that waits for the leader of its room as the n-th.
func follow(ctx context.Context, tb testing.TB, mu *rwlock.Lock, n int) <-chan outcome {
	tb.Helper()
	answered := later(ctx, mu, read)
	await(tb, "a reader that waits for another", func() bool {
		_, waiting := mu.InRoom()
		return waiting == n
	})
	return answered
}

// must takes a lock that can be had.
func must(tb testing.TB, mu *rwlock.Lock, take side) signalbox.Lease {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	lease, err := take(mu, ctx)
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

// mustFail answers the error of a wait that came to nothing.
func mustFail(tb testing.TB, answered <-chan outcome) error {
	tb.Helper()
	got := within(tb, "the end of the wait", answered)
	require.Error(tb, got.err)
	require.Equal(tb, signalbox.Lease{}, got.lease)
	return got.err
}

func holderKey(name string) string { return "sb:{" + name + "}:lock" }

// holds answers by name when the holds of a plain name end, by the server's account.
func holds(tb testing.TB, server *redistest.Server, name string) map[string]time.Time {
	tb.Helper()
	reply, _ := server.MustDo(tb, "EVAL", `
if redis.call('TYPE', KEYS[1]).ok ~= 'zset' then return {} end
local time = redis.call('TIME')
return redis.call('ZRANGE', KEYS[1], '(' .. time[1] .. string.sub('00000' .. time[2], -6), '+inf', 'BYSCORE', 'WITHSCORES')`,
		1, holderKey(name)).([]any)
	ends := make(map[string]time.Time)
	for i := 0; i+1 < len(reply); i += 2 {
		hold, _ := reply[i].(string)
		ends[hold] = time.UnixMicro(integer(tb, reply[i+1]))
	}
	return ends
}

// isHeld reports whether a plain name is held, by the server's account.
func isHeld(tb testing.TB, server *redistest.Server, name string) bool {
	tb.Helper()
	return len(holds(tb, server, name)) > 0
}

// awaitFree waits until nobody has a plain name, and nobody waits for it.
func awaitFree(tb testing.TB, server *redistest.Server, name string) {
	tb.Helper()
	await(tb, "a free lock and an empty line", func() bool { return !isHeld(tb, server, name) && inLine(tb, server, name) == 0 })
}

// inLine answers how many stand in line for a plain name, readers and writers.
func inLine(tb testing.TB, server *redistest.Server, name string) int {
	tb.Helper()
	return int(integer(tb, server.MustDo(tb, "ZCARD", "sb:{"+name+"}:writers")) + integer(tb, server.MustDo(tb, "ZCARD", "sb:{"+name+"}:readers")))
}

// integer reads a number out of a reply, where it may be a text.
func integer(tb testing.TB, reply any) int64 {
	tb.Helper()
	n, err := strconv.ParseInt(fmt.Sprint(reply), 10, 64)
	require.NoError(tb, err)
	return n
}

// isOf answers which requests are those of these scripts.
func isOf(these ...*scripts.Script) redistest.Match {
	return func(request []string) bool {
		return len(request) > 1 && slices.ContainsFunc(these, func(script *scripts.Script) bool {
			return request[1] == script.SHA1 || request[1] == script.Source
		})
	}
}

// sentBy answers how often each command ran while do did.
func sentBy(server *redistest.Server, do func()) map[string]int64 { return server.SentBy(do) }
