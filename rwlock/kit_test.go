// SPDX-License-Identifier: Apache-2.0

package rwlock_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/rwlock"
)

// fixture is the lock of one test: the server, and the lock's name there.
type fixture struct {
	testing.TB

	server *redistest.Server
	name   string
}

// sharedFixture returns the fixture of a test on the server that all of them share.
func sharedFixture(t *testing.T) fixture {
	t.Helper()
	redistest.NeedServer(t)
	return fixture{t, common, fmt.Sprint(t.Name(), "/", fixtures.Add(1))}
}

// fixtures counts the sites, so that a test that is run again has a new name.
var fixtures atomic.Int64

// ownFixture returns the fixture of a test with its own server: it counts commands or channels, or does something to the server.
func ownFixture(t *testing.T) fixture {
	t.Helper()
	return fixture{t, redistest.Start(t), "a"}
}

// of returns the fixture of another lock of the test.
func (f fixture) of(part string) fixture {
	f.name += "/" + part
	return f
}

// lock returns the lock in a session of its own.
func (f fixture) lock(options ...signalbox.LockOption) *rwlock.Lock {
	f.Helper()
	return rwlock.New(f.session(), f.name, options...)
}

// session returns a session to which nothing is to happen: it bears with a server that is silent on a busy machine.
func (f fixture) session(options ...signalbox.SessionOption) *signalbox.Session {
	f.Helper()
	return locktest.SessionOf(f, f.server.Client(f, locktest.Steady), options...)
}

// locks returns the lock in n sessions.
func (f fixture) locks(n int) []*rwlock.Lock {
	f.Helper()
	mus := make([]*rwlock.Lock, n)
	for i := range mus {
		mus[i] = f.lock()
	}
	return mus
}

// poller returns a session that sends nothing by itself, so that what it is asked for can be counted.
func (f fixture) poller() *signalbox.Session {
	f.Helper()
	return f.session(signalbox.WithPolling())
}

// key returns the key of the lock's holds.
func (f fixture) key() string { return locktest.Key(f.name) }

// holds returns when each hold expires, by the server's account.
func (f fixture) holds() map[string]time.Time {
	f.Helper()
	reply, _ := f.server.MustDo(f, "EVAL", `
if redis.call('TYPE', KEYS[1]).ok ~= 'zset' then return {} end
local time = redis.call('TIME')
return redis.call('ZRANGE', KEYS[1], '(' .. time[1] .. string.sub('00000' .. time[2], -6), '+inf', 'BYSCORE', 'WITHSCORES')`,
		1, f.key()).([]any)
	ends := make(map[string]time.Time)
	for i := 0; i+1 < len(reply); i += 2 {
		hold, _ := reply[i].(string)
		ends[hold] = time.UnixMicro(locktest.Integer(f, reply[i+1]))
	}
	return ends
}

// isHeld reports whether the lock is held, by the server's account.
func (f fixture) isHeld() bool {
	f.Helper()
	return len(f.holds()) > 0
}

// queued returns how many readers and writers wait in the queues of the server.
func (f fixture) queued() int {
	f.Helper()
	keys := locktest.Keys(f.name)
	return locktest.Count(f, f.server, "ZCARD", keys.Writers()) + locktest.Count(f, f.server, "ZCARD", keys.Readers())
}

// awaitFree waits until the lock is neither held nor waited for.
func (f fixture) awaitFree() {
	f.Helper()
	redistest.Await(f, "a free lock and empty queues", func() bool { return !f.isHeld() && f.queued() == 0 })
}

// queue calls a method on another goroutine, and returns when that waits as the n-th in the queues of the server.
func (f fixture) queue(ctx context.Context, mu *rwlock.Lock, take lockMethod, n int) <-chan result {
	f.Helper()
	got := later(ctx, mu, take)
	redistest.Await(f, "a ticket in a queue", func() bool { return f.queued() == n })
	return got
}

// lockMethod is a method of a lock that takes it.
type lockMethod func(*rwlock.Lock, context.Context) (signalbox.Lease, error)

// The sides of a lock.
var (
	write   lockMethod = (*rwlock.Lock).Lock
	read    lockMethod = (*rwlock.Lock).RLock
	tryRead lockMethod = (*rwlock.Lock).TryRLock
)

// result is what a call returned that takes a lock.
type result = locktest.Result[signalbox.Lease]

// later takes a lock on another goroutine.
func later(ctx context.Context, mu *rwlock.Lock, take lockMethod) <-chan result {
	return locktest.Later(func() (signalbox.Lease, error) { return take(mu, ctx) })
}

// follow reads on another goroutine, and returns when n readers of its session wait. The one that asks for them is among them
// when it has a ticket.
func follow(ctx context.Context, tb testing.TB, mu *rwlock.Lock, n int) <-chan result {
	tb.Helper()
	got := later(ctx, mu, read)
	redistest.Await(tb, "a reader that waits for another", func() bool { return mu.Waiting() == n })
	return got
}

// must takes a lock that can be had.
func must(tb testing.TB, mu *rwlock.Lock, take lockMethod) signalbox.Lease {
	tb.Helper()
	lease, err := take(mu, locktest.Context(tb))
	require.NoError(tb, err)
	return lease
}

// second returns the error of a call.
func second(_ signalbox.Lease, err error) error { return err }
