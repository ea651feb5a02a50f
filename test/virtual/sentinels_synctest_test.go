// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
)

// watcher is a sentinel in virtual time, which accepts one user.
type watcher struct {
	wire

	redis *miniredis.Miniredis
}

// newWatcher returns a sentinel that names one primary. pongs says that it replies to a PING of anybody.
func (f *fixture) newWatcher(pongs bool) *watcher {
	w := &watcher{redis: newEmbedded(f.T)}
	w.redis.Server().SetPreHook(func(c *server.Peer, command string, args ...string) bool {
		switch {
		case command == "SENTINEL" && args[0] == "SENTINELS":
			c.WriteRaw("*0\r\n")
		case command == "SENTINEL":
			c.WriteRaw("*2\r\n$8\r\n10.0.0.1\r\n$4\r\n6379\r\n")
		case command == "PING" && pongs:
			c.WriteInline("PONG")
		default:
			return false
		}
		return true
	})
	f.Cleanup(w.redis.Close)
	return w
}

// behindSentinels is a session behind two sentinels, whose password changes, and its log.
type behindSentinels struct {
	*fixture

	sentinels [2]*watcher
	session   *signalbox.Session
	lines     *logLines
}

func (f *fixture) behindSentinels(pongs, resp2 bool, options ...signalbox.SessionOption) *behindSentinels {
	b := &behindSentinels{fixture: f, sentinels: [2]*watcher{f.newWatcher(pongs), f.newWatcher(pongs)}}
	b.rotate("a")
	f.redis.Server().SetPreHook(func(c *server.Peer, command string, _ ...string) bool {
		if command == "ROLE" {
			c.WriteRaw("*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n")
		}
		return command == "ROLE"
	})
	o := rueidis.ClientOption{InitAddress: []string{"s0:1", "s1:1"}, AlwaysRESP2: resp2, ReadBufferEachConn: 4 << 10, WriteBufferEachConn: 4 << 10, RingScaleEachConn: 7}
	o.Sentinel = rueidis.SentinelOption{MasterSet: "main", Username: "watch", Password: "a"}
	o.DialCtxFn = func(_ context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
		if host, _, _ := net.SplitHostPort(addr); host != "10.0.0.1" {
			w := b.sentinels[host[1]-'0']
			return w.dial(w.redis)
		}
		return f.Dial()
	}
	var err error
	logger, lines := logged()
	b.session, err = signalbox.DialWith(f.Context(), o, append(options, signalbox.WithLogger(logger))...)
	require.NoError(f, err)
	b.lines = lines
	return b
}

// rotate changes the password at the sentinels. Open connections stay.
func (b *behindSentinels) rotate(password string) {
	synctest.Wait() // the fake server reads the users without a lock
	for _, w := range b.sentinels {
		w.redis.RequireUserAuth("watch", password)
	}
}

// reconnect ends the connections to the sentinels, and lets only one of them accept connections.
func (b *behindSentinels) reconnect(only int) {
	for i, w := range b.sentinels {
		w.refuses.Store(i != only)
	}
	for _, w := range b.sentinels {
		w.cut()
	}
	b.use()
}

// use makes calls for a while. All succeed.
func (b *behindSentinels) use() {
	b.Helper()
	for range 120 {
		require.NoError(b, locked(b.Context(), b.session))
		time.Sleep(100 * time.Millisecond)
	}
	synctest.Wait()
}

// Sentinels whose password changes are asked with that of now. A sentinel that refuses is named in the log, once, with what it says to
// the credentials; and once when it accepts the client again. No call fails meanwhile. So it is with a fixed password.
func TestThePasswordOfSentinelsIsRotated(t *testing.T) {
	t.Parallel()
	for _, fixed := range []bool{false, true} {
		for _, pongs := range []bool{false, true} {
			for _, resp2 := range []bool{false, true} {
				t.Run(fmt.Sprint("fixed=", fixed, ",pongs=", pongs, ",resp2=", resp2), func(t *testing.T) {
					t.Parallel()
					bubble(t, func(f *fixture) {
						password, fails := "a", error(nil)
						var options []signalbox.SessionOption
						if !fixed {
							options = append(options, signalbox.WithSentinelCredentials(func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
								return rueidis.AuthCredentials{Username: "watch", Password: password}, fails
							}))
						}
						b := f.behindSentinels(pongs, resp2, options...)
						defer func() { _ = b.session.Close(endedContext()) }()
						b.use()
						if !fixed {
							synctest.Wait()
							password = "b"
							b.rotate(password)
							b.reconnect(0)
							b.reconnect(1)
						}
						require.Empty(t, b.lines.String())

						b.rotate("c")
						b.use() // in RESP2 a connection is replaced by its age
						b.reconnect(0)
						b.reconnect(1)
						b.reconnect(0)
						requireSentinels(f, b.lines.String(), "a sentinel refuses the client", "WRONGPASS")

						synctest.Wait()
						if !fixed {
							password = "c"
						}
						b.rotate(password)
						b.reconnect(0)
						b.reconnect(1)
						requireSentinels(f, b.lines.String(), "the sentinel accepts the client again", "after=")
						if fixed {
							return
						}
						synctest.Wait()
						fails = errors.New("no vault")
						b.reconnect(0)
						b.reconnect(1)
						requireSentinels(f, b.lines.String(), "the function for credentials fails", "no vault")
						fails = nil
						b.reconnect(0)
						b.reconnect(1)
						requireSentinels(f, b.lines.String(), "the function for credentials returns again", "after=")
						require.Equal(t, 8, strings.Count(b.lines.String(), "\n"), b.lines.String())
					})
				})
			}
		}
	}
}

// requireSentinels checks that one line for each of two sentinels has both parts.
func requireSentinels(f *fixture, log, begins, has string) {
	f.Helper()
	found := matching(log, begins)
	require.Len(f, found, 2, log)
	for _, addr := range []string{"s0:1", "s1:1"} {
		line := matching(strings.Join(found, "\n"), addr)
		require.Len(f, line, 1, log)
		require.Contains(f, line[0], has)
	}
}
