// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/redlock"
)

// lastVote is how long after a quorum has granted the other servers have their part in the hold, or have
// none: more than a server is asked for.
const lastVote = 2 * time.Second

// world is servers that know nothing of each other, with a wire that can fail before each, and the name of a lock.
type world struct {
	testing.TB

	name    string
	servers []*redistest.Server
	proxies []*redistest.Proxy
}

// newWorld returns a world of servers, of which so many are the test's own and the others shared.
func newWorld(tb testing.TB, servers, own int) *world {
	tb.Helper()
	redistest.NeedServer(tb)
	w := &world{TB: tb, name: tb.Name()}
	for i := range servers {
		s := shared[i]
		if i < own {
			s = redistest.Start(tb)
			require.NoError(tb, locktest.Establish(s))
		}
		w.servers = append(w.servers, s)
		w.proxies = append(w.proxies, redistest.NewProxy(tb, s.Addr()))
	}
	return w
}

// sessions returns a session for each server, through its wire, as a process of its own would have them. They tolerate
// a server that is silent on a busy machine.
func (w *world) sessions(options ...signalbox.SessionOption) []*signalbox.Session {
	w.Helper()
	return w.sessionsBy(locktest.SteadySession, options...)
}

// sessionsBy is sessions that are made by a function.
func (w *world) sessionsBy(
	open func(testing.TB, redistest.Dialer, ...signalbox.SessionOption) *signalbox.Session, options ...signalbox.SessionOption,
) []*signalbox.Session {
	w.Helper()
	all := make([]*signalbox.Session, len(w.proxies))
	for i, p := range w.proxies {
		all[i] = open(w, p, options...)
	}
	return all
}

// lock returns the lock as a process of its own would have it.
func (w *world) lock(options ...signalbox.LockOption) *redlock.Lock {
	w.Helper()
	return redlock.New(w.sessions(), w.name, options...)
}

// mustLockAll locks on every server. A lock needs a quorum: a server that replies too late, or could not be
// asked in time, may have no part in it, and then it is acquired anew.
func (w *world) mustLockAll(mu *redlock.Lock) (lease signalbox.Lease) {
	w.Helper()
	redistest.Await(w, "a lock that all servers have", func() bool {
		lease = locktest.Must(w, mu.Lock)
		if redistest.PollUntil(lastVote, func() bool { return w.holds() == len(w.servers) }) {
			return true
		}
		_ = lease.Unlock() // if that is not confirmed the next one waits for it
		return false
	})
	return lease
}

// mustFail tries to lock until the error is want. Servers that do not reply in time say nothing, and a vote
// without them may be undecided; but it must not be won.
func mustFail(tb testing.TB, mu *redlock.Lock, want error) (err error) {
	tb.Helper()
	redistest.Await(tb, want.Error(), func() bool {
		_, err = mu.TryLock(locktest.Context(tb))
		require.Error(tb, err)
		return errors.Is(err, want)
	})
	return err
}

// value returns what the i-th server says of the lock, "" for nothing.
func (w *world) value(i int) string {
	w.Helper()
	reply, err := w.servers[i].Do("GET", locktest.Key(w.name))
	if err != nil {
		return "" // it is away
	}
	value, _ := reply.(string)
	return value
}

// holds returns on how many servers that are up a process has the lock.
func (w *world) holds() (n int) {
	w.Helper()
	for i := range w.servers {
		if strings.HasPrefix(w.value(i), "sb1q") {
			n++
		}
	}
	return n
}

// awaitFree waits until no server has anything of the lock.
func (w *world) awaitFree() {
	w.Helper()
	redistest.Await(w, "no server has anything of the lock", func() bool { return w.holds() == 0 })
}

// foreign returns a value of a holder key that another process would have written.
func foreign() string {
	return "sb1q" + "1780000000000000" + strings.Repeat("f", 22) + strings.Repeat("1", 19) + strings.Repeat("-", 22)
}
