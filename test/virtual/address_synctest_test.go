// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// movingAddress is one address that leads to the server of a fixture, and to another one after a failover. Connections
// that were made before it stay where they are.
type movingAddress struct {
	*fixture

	next  *miniredis.Miniredis
	moved atomic.Bool
	links []*wire // the links of the sessions
	// over returns a connection over that of a link, to a server. A session may set it before it connects; nil is the link's own.
	over func(conn net.Conn, to *miniredis.Miniredis, config *tls.Config) (net.Conn, error)
}

// movingAddress starts the second server. The test of the fixture closes it at its end.
func (f *fixture) movingAddress() *movingAddress {
	a := &movingAddress{fixture: f, next: newEmbedded(f.T)}
	f.ends = append(f.ends, a.next.Close)
	return a
}

// session returns a session that connects to the address, and whose connections reach the age that Tune sets. mod changes the
// options of its client.
func (a *movingAddress) session(mod func(*rueidis.ClientOption), options ...signalbox.SessionOption) *signalbox.Session {
	link := &wire{}
	a.links = append(a.links, link)
	c, _ := a.client(a.T, func(o *rueidis.ClientOption) {
		o.ConnLifetime = 0
		if mod != nil {
			mod(o)
		}
		o.DialCtxFn = func(_ context.Context, _ string, _ *net.Dialer, config *tls.Config) (net.Conn, error) {
			to := a.redis
			if a.moved.Load() {
				to = a.next
			}
			conn, err := link.dial(to)
			if err == nil && a.over != nil {
				return a.over(conn, to, config)
			}
			return conn, err
		}
	})
	s := signalbox.NewSession(c, options...)
	a.ends = append(a.ends, func() {
		_ = s.Close(locktest.Ended())
		c.Close()
	})
	return s
}

// failOver gives the second server all keys, and lets the address lead to it. demoted says that the first one refuses writes
// from now on. Otherwise it serves as before.
func (a *movingAddress) failOver(demoted bool) { //nolint:revive // a fact about the server
	backupOf(a.redis).Restore(a.next)
	if demoted {
		a.redis.Server().SetPreHook(func(c *server.Peer, command string, _ ...string) bool {
			refuses := strings.HasPrefix(command, "EVAL")
			if refuses {
				c.WriteError("READONLY You can't write against a read only replica.")
			}
			return refuses
		})
	}
	a.moved.Store(true)
}

// P10: an attempt to connect that failed, also each attempt to subscribe, keeps no session at a former primary: its connection for
// calls is replaced at its age. What cannot be replaced is logged once, and its end.
func TestFailedAttemptsStopNoFollowing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		muted  bool          // the address ends each connection that subscribes
		idle   time.Duration // the idle time after the end of the connection for messages, while no other can be made
		used   time.Duration // the time in use after that, still without another connection
		logged int           // the number of lines that say that connections are not replaced, and that they are again
	}{
		"no messages":                      {muted: true},
		"a blip, and nobody listens again": {idle: 10 * time.Second, logged: 1},
		"no other connection can be made":  {used: time.Minute, logged: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubbleOfUsers(t, func(f *fixture) {
				a := f.movingAddress()
				if c.muted {
					a.over = func(conn net.Conn, _ *miniredis.Miniredis, _ *tls.Config) (net.Conn, error) {
						return mutedConn{conn}, nil
					}
				}
				logger, lines := logged()
				s := a.session(nil, signalbox.WithLogger(logger))
				held := atOnce(f.T, reentrant.New(s, "held"))
				used := func(d time.Duration) {
					for until := time.Now().Add(d); time.Now().Before(until); time.Sleep(200 * time.Millisecond) {
						require.NoError(f, locked(f.Context(), s))
					}
				}
				used(2 * time.Second)
				if !c.muted {
					a.links[0].refuses.Store(true)
					a.links[0].breakSubscriptions()
					time.Sleep(700 * time.Millisecond)
				}
				require.NoError(f, held.Unlock())
				time.Sleep(c.idle)
				used(c.used)
				a.links[0].refuses.Store(false)
				used(10 * time.Second)
				a.failOver(false)
				other := atOnce(f.T, reentrant.New(a.session(nil, quiet), "a"))
				time.Sleep(5 * time.Second)
				_, err := reentrant.New(s, "b").TryLock(f.Context()) // its connection is old
				require.NoError(f, err)
				time.Sleep(time.Second)
				require.ErrorIs(f, no(reentrant.New(s, "a").TryLock(f.Context())), signalbox.ErrHeld)
				require.NoError(f, other.Unlock())
				synctest.Wait()
				for _, part := range replaced {
					require.Equal(f, c.logged, strings.Count(lines.String(), part), lines.String())
				}
			})
		})
	}
}

// mutedConn is a connection that ends when the client subscribes on it.
type mutedConn struct{ net.Conn }

// Write implements net.Conn.
func (c mutedConn) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("\r\nSUBSCRIBE\r\n")) {
		_ = c.Close()
	}
	return c.Conn.Write(b)
}
