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
func readyBubble(t *testing.T, n int, test func(q *redlockServers)) {
	t.Helper()
	bubbleOf(t, n, func(q *redlockServers) {
		q.makeReady()
		test(q)
	})
}

// lock returns the lock "a" of a process of its own, and its wires.
func (q *redlockServers) lock(options ...signalbox.LockOption) (*redlock.Lock, []*wire) {
	sessions, wires := q.process()
	return redlock.New(sessions, "a", options...), wires
}

// warm acquires and releases a lock, so that all servers know the scripts, and its sessions the time.
func (q *redlockServers) warm(mu *redlock.Lock) {
	q.Helper()
	lease := q.mustLock(mu)
	time.Sleep(time.Second)
	require.NoError(q, lease.Unlock())
	time.Sleep(time.Second)
}

// value returns what a server has of the lock "a", "" if that is nothing.
func (q *redlockServers) value(i int) string {
	w := q.servers[i]
	w.redis.SetTime(time.Now().Add(q.ahead[i]))
	value, err := w.redis.Get(locktest.Key("a"))
	if err != nil {
		return "" // there is no such key
	}
	return value
}

// holds returns how many servers have a hold of the lock "a".
func (q *redlockServers) holds() (n int) {
	for i := range q.servers {
		if strings.HasPrefix(q.value(i), "sb1q") {
			n++
		}
	}
	return n
}

// foreign puts the hold of another process on a server. Holds with the same digit are of one attempt.
func (q *redlockServers) foreign(i int, digit string, life time.Duration) {
	q.Helper()
	w := q.servers[i]
	w.redis.SetTime(time.Now().Add(q.ahead[i]))
	value := "sb1q" + "1780000000000000" + strings.Repeat("f", 22) + strings.Repeat(digit, 19) + strings.Repeat("-", 22)
	require.NoError(q, w.redis.Set(locktest.Key("a"), value))
	w.redis.SetTTL(locktest.Key("a"), life)
}

// remove deletes the key of the lock "a" on a server.
func (q *redlockServers) remove(i int) { q.servers[i].redis.Del(locktest.Key("a")) }

// requireNothing fails the test if a server has a hold of the lock "a", or a session is busy.
func (q *redlockServers) requireNothing(sessions ...*signalbox.Session) {
	q.Helper()
	require.Zero(q, q.holds())
	requireIdle(q.T, sessions...)
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
func (q *redlockServers) counted(i int) *serverCounts {
	count := &serverCounts{}
	q.servers[i].redis.Server().SetPreHook(func(_ *server.Peer, command string, args ...string) bool {
		if command == "EVALSHA" {
			q.servers[i].redis.SetTime(time.Now())
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
func (q *redlockServers) processWithout(server int, away func(w *wire)) (sessions []*signalbox.Session, gone *wire) {
	q.Helper()
	for i, w := range q.servers {
		link := &wire{}
		if i == server {
			away(link)
			gone = link
		}
		o := rueidis.ClientOption{
			InitAddress: []string{"embedded"}, ForceSingleClient: true, AlwaysRESP2: true,
			DialCtxFn: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) { return link.dial(w.redis) },
		}
		signalbox.Tune(&o)
		c, err := rueidis.NewClient(o)
		require.Equal(q, i == server, err != nil)
		s := signalbox.NewSession(c)
		q.ends = append(q.ends, func() {
			_ = s.Close(locktest.Ended()) // says that leases were left, which the test knows
			c.Close()
		})
		sessions = append(sessions, s)
	}
	return sessions, gone
}
