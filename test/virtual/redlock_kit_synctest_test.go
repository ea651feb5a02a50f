// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/redlock"
	"github.com/signalbox-go/signalbox/scripts"
)

// readyBubble runs a test in virtual time, with so many servers that grant at once.
func readyBubble(t *testing.T, n int, test func(r *redlockServers)) {
	t.Helper()
	bubbleOf(t, n, func(r *redlockServers) {
		r.makeReady()
		test(r)
	})
}

// lock returns the lock "a" of a process of its own, and its wires.
func (r *redlockServers) lock(options ...signalbox.LockOption) (*redlock.Lock, []*wire) {
	sessions, wires := r.process()
	return redlock.New(sessions, "a", options...), wires
}

// warm acquires and releases a lock, so that all servers know the scripts, and its sessions the time.
func (r *redlockServers) warm(mu *redlock.Lock) {
	r.Helper()
	lease := r.mustLock(mu)
	time.Sleep(time.Second)
	require.NoError(r, lease.Unlock())
	time.Sleep(time.Second)
}

// value returns what a server has of the lock "a", "" if that is nothing.
func (r *redlockServers) value(i int) string {
	f := r.servers[i]
	f.redis.SetTime(time.Now().Add(r.ahead[i]))
	value, err := f.redis.Get(locktest.Key("a"))
	if err != nil {
		return "" // there is no such key
	}
	return value
}

// holds returns how many servers have a hold of the lock "a".
func (r *redlockServers) holds() (n int) {
	for i := range r.servers {
		if strings.HasPrefix(r.value(i), "sb1q") {
			n++
		}
	}
	return n
}

// foreign puts the hold of another process on a server. Holds with the same digit are of one attempt.
func (r *redlockServers) foreign(i int, digit string, life time.Duration) {
	r.Helper()
	f := r.servers[i]
	f.redis.SetTime(time.Now().Add(r.ahead[i]))
	value := "sb1q" + "1780000000000000" + strings.Repeat("f", 22) + strings.Repeat(digit, 19) + strings.Repeat("-", 22)
	require.NoError(r, f.redis.Set(locktest.Key("a"), value))
	f.redis.SetTTL(locktest.Key("a"), life)
}

// remove deletes the key of the lock "a" on a server.
func (r *redlockServers) remove(i int) { r.servers[i].redis.Del(locktest.Key("a")) }

// requireNothing fails the test if a server has a hold of the lock "a", or a session is busy.
func (r *redlockServers) requireNothing(sessions ...*signalbox.Session) {
	r.Helper()
	require.Zero(r, r.holds())
	requireIdle(r.T, sessions...)
}

// stopRenewing lets servers vanish for these processes.
func stopRenewing(servers []int, processes ...[]*wire) {
	for _, wires := range processes {
		for _, i := range servers {
			wires[i].goSilent()
		}
	}
}

// oneIsSlow lets one server be slow for a process. The others are a hop away, so that the slow one is asked before they have
// decided: if their replies took no time, the lock could be released at the instant in which it is asked.
func oneIsSlow(wires []*wire, slow int, latency time.Duration) {
	for i, w := range wires {
		w.latency.Store(int64(hop))
		if i == slow {
			w.latency.Store(int64(latency))
		}
	}
}

// serverCounts is how often a server was asked for the lock and for its release. Reading it takes an idle server.
type serverCounts struct{ acquires, releases int }

// counted returns the count of the calls that a server has from now on.
func (r *redlockServers) counted(i int) *serverCounts {
	count := &serverCounts{}
	r.servers[i].redis.Server().SetPreHook(func(_ *server.Peer, command string, args ...string) bool {
		if command == "EVALSHA" {
			r.servers[i].redis.SetTime(time.Now())
			switch args[0] {
			case scripts.RedlockAcquire.SHA1:
				count.acquires++
			case scripts.RedlockRelease.SHA1:
				count.releases++
			}
		}
		return false
	})
	return count
}

// processWithout is process for one whose clients are made while a server is away.
func (r *redlockServers) processWithout(server int, away func(w *wire)) (sessions []*signalbox.Session, gone *wire) {
	r.Helper()
	for i, f := range r.servers {
		link := &wire{}
		if i == server {
			away(link)
			gone = link
		}
		o := rueidis.ClientOption{
			InitAddress: []string{"embedded"}, ForceSingleClient: true, AlwaysRESP2: true,
			DialCtxFn: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) { return link.dial(f.redis) },
		}
		signalbox.Tune(&o)
		c, err := rueidis.NewClient(o)
		require.Equal(r, i == server, err != nil)
		s := signalbox.NewSession(c)
		r.ends = append(r.ends, func() {
			_ = s.Close(locktest.Ended()) // says that leases were left, which the test knows
			c.Close()
		})
		sessions = append(sessions, s)
	}
	return sessions, gone
}
