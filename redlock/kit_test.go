// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/names"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/redlock"
	"github.com/signalbox-go/signalbox/scripts"
)

// patience is how long a test waits for what must happen. It is reached by failing tests only.
const patience = 20 * time.Second

const (
	// steady is a lease that goes on though the machine stalls for seconds: it is renewed each two, and has four left then.
	steady = 6 * time.Second
	// moment is how long a call waits that is to be told something before its context ends, and a lease lasts that is to end.
	moment = 3 * time.Second
	// lastVote is how long after a quorum has granted the others have their part in the hold, or have none: more than a server
	// is asked for.
	lastVote = 2 * time.Second
)

// establish lets a server look as one that has had its data for a day, so that it grants at once.
const establish = `
local life = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local since = string.format('%016.0f', redis.call('TIME')[1] * 1000000 - 86400000000)
return redis.call('SET', KEYS[1], 'sb1e' .. since .. since .. life, 'PX', 604800000)`

// dialer is a server, or a proxy before one.
type dialer = redistest.Dialer

// world is servers that know nothing of each other, with a wire that can fail before each.
type world struct {
	testing.TB

	servers []*redistest.Server
	proxies []*redistest.Proxy
}

// newWorld answers n servers that have had their data for long.
func newWorld(tb testing.TB, n int) *world {
	tb.Helper()
	w := newServers(tb, n)
	for _, s := range w.servers {
		s.MustDo(tb, "EVAL", establish, 1, "sb:epoch")
	}
	return w
}

// newServers answers n servers that are new.
func newServers(tb testing.TB, n int) *world {
	tb.Helper()
	w := &world{TB: tb}
	for range n {
		s := redistest.Start(tb)
		w.servers = append(w.servers, s)
		w.proxies = append(w.proxies, redistest.NewProxy(tb, s.Addr()))
	}
	return w
}

// sessions answers a session for each server, through its wire, as a process of its own would have them.
func (w *world) sessions(options ...signalbox.SessionOption) []*signalbox.Session {
	w.Helper()
	all := make([]*signalbox.Session, len(w.proxies))
	for i, p := range w.proxies {
		all[i] = newSession(w, p, options...)
	}
	return all
}

// lock answers the lock name as a process of its own would have it.
func (w *world) lock(name string, options ...redlock.Option) *redlock.Lock {
	w.Helper()
	return redlock.New(w.sessions(), name, options...)
}

// newSession answers a session on a connection of its own, whose Unlock waits for a busy machine as well. It is closed
// when the test ends, whatever is still held.
func newSession(tb testing.TB, at dialer, options ...signalbox.SessionOption) *signalbox.Session {
	tb.Helper()
	s := signalbox.NewSession(at.Client(tb, func(o *rueidis.ClientOption) {
		o.ConnWriteTimeout = time.Second
		signalbox.Tune(o)
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

// within receives what must come.
func within[T any](tb testing.TB, what string, c <-chan T) T {
	tb.Helper()
	return redistest.Receive(tb, what, c)
}

// await polls until done, which asks for something that must come true.
func await(tb testing.TB, what string, done func() bool) {
	tb.Helper()
	redistest.Await(tb, what, done)
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
func lockLater(ctx context.Context, mu *redlock.Lock) <-chan outcome {
	answered := make(chan outcome, 1)
	go func() {
		lease, err := mu.Lock(ctx)
		answered <- outcome{lease, err}
	}()
	return answered
}

// mustLock locks in time.
func mustLock(tb testing.TB, mu *redlock.Lock) signalbox.Lease {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	lease, err := mu.Lock(ctx)
	require.NoError(tb, err)
	require.NoError(tb, lease.Err())
	return lease
}

// mustLockAll locks on every server. A lock needs a quorum: a server that answers too late, or could not be asked in time,
// may have no part in it, and then it is taken anew.
func (w *world) mustLockAll(mu *redlock.Lock, name string) (lease signalbox.Lease) {
	w.Helper()
	await(w, "a lock that all servers have", func() bool {
		if lease = mustLock(w, mu); becomes(lastVote, func() bool { return w.holds(name) == len(w.servers) }) {
			return true
		}
		_ = lease.Unlock() // where that is not confirmed the next one waits for it
		return false
	})
	return lease
}

// mustBeHeld tries to lock until the servers say that somebody has the lock. Those that do not answer in time say
// nothing, and a vote without them may come to nothing; but it must not be won.
func mustBeHeld(ctx context.Context, tb testing.TB, mu *redlock.Lock) {
	tb.Helper()
	await(tb, "the answer that somebody has the lock", func() bool {
		_, err := mu.TryLock(ctx)
		require.Error(tb, err)
		return errors.Is(err, signalbox.ErrHeld)
	})
}

// becomes polls until done, or until limit is over, and reports which.
func becomes(limit time.Duration, done func() bool) bool {
	pause := time.NewTicker(2 * time.Millisecond)
	defer pause.Stop()
	for ends := time.Now().Add(limit); !done(); <-pause.C {
		if time.Now().After(ends) {
			return false
		}
	}
	return true
}

// mustHave takes the lease that a call answers.
func mustHave(tb testing.TB, answered <-chan outcome) signalbox.Lease {
	tb.Helper()
	o := within(tb, "the lock", answered)
	require.NoError(tb, o.err)
	return o.lease
}

// key answers the holder key of a lock.
func key(name string) string { return "sb:{" + names.Encode(name) + "}:lock" }

// value answers what the i-th server says of the lock, "" for nothing.
func (w *world) value(i int, name string) string {
	w.Helper()
	reply, err := w.servers[i].Do("GET", key(name))
	if err != nil {
		return ""
	}
	value, _ := reply.(string)
	return value
}

// holds answers on how many servers that are up somebody has the lock.
func (w *world) holds(name string) int {
	w.Helper()
	n := 0
	for i := range w.servers {
		if strings.HasPrefix(w.value(i, name), "sb1q") {
			n++
		}
	}
	return n
}

// awaitFree waits until no server has anything of the lock.
func (w *world) awaitFree(name string) {
	w.Helper()
	await(w, "no server has anything of the lock", func() bool { return w.holds(name) == 0 })
}

// awaitHolds waits until so many servers have the lock: those that a quorum did not wait for, too.
func (w *world) awaitHolds(name string, n int) {
	w.Helper()
	await(w, "the servers have the lock", func() bool { return w.holds(name) == n })
}

// settled waits until the sessions have nothing under way. A call may return before a server was
// even sent the acquire: an empty settler alone does not say that nothing comes.
func settled(tb testing.TB, sessions []*signalbox.Session) {
	tb.Helper()
	for _, s := range sessions {
		await(tb, "nothing is under way", (*session.Session)(s).IsIdle)
	}
}

// runs matches the requests that run a script.
func runs(these ...*scripts.Script) redistest.Match {
	return func(req []string) bool {
		for _, s := range these {
			if len(req) > 1 && (strings.EqualFold(req[0], "EVALSHA") && req[1] == s.SHA1 || strings.EqualFold(req[0], "EVAL") && req[1] == s.Source) {
				return true
			}
		}
		return false
	}
}

// foreign answers a value of a holder key that another process would have written, from some stamp on.
func foreign(attempt string) string {
	return "sb1q" + "1780000000000000" + strings.Repeat("f", 22) + attempt + strings.Repeat("-", 22)
}

// delayed is a fault that delivers the next reply so much later.
func delayed(d time.Duration) redistest.Fault {
	return redistest.Fault{Kind: redistest.DelayReply, Delay: d}
}
