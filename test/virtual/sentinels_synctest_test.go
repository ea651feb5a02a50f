// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
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
)

// watcher is a sentinel in virtual time, which accepts one user.
type watcher struct {
	wire

	redis   *miniredis.Miniredis
	primary atomic.Pointer[string] // the host of the primary that it names
}

// newWatcher returns a sentinel that names one primary. pongs says that it replies to a PING of anybody.
func (f *fixture) newWatcher(pongs bool) *watcher {
	w := &watcher{redis: newEmbedded(f.T)}
	w.name("10.0.0.1")
	w.redis.Server().SetPreHook(func(c *server.Peer, command string, args ...string) bool {
		switch {
		case command == "SENTINEL" && args[0] == "SENTINELS":
			c.WriteRaw("*0\r\n")
		case command == "SENTINEL":
			c.WriteStrings([]string{*w.primary.Load(), "6379"})
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

// name lets the sentinel name a primary.
func (w *watcher) name(host string) { w.primary.Store(&host) }

// behindSentinels is a session behind two sentinels, whose password changes, and its log.
type behindSentinels struct {
	*fixture

	sentinels [2]*watcher
	promoted  *miniredis.Miniredis // the server at 10.0.0.2
	refuses   atomic.Bool          // that server asks for a password
	session   *signalbox.Session
	lines     *logLines
	dials     atomic.Int64 // the attempts to connect, to sentinels and servers
}

func (f *fixture) behindSentinels(pongs, resp2 bool, options ...signalbox.SessionOption) *behindSentinels {
	b := &behindSentinels{fixture: f, sentinels: [2]*watcher{f.newWatcher(pongs), f.newWatcher(pongs)}, promoted: newEmbedded(f.T)}
	f.Cleanup(b.promoted.Close)
	b.rotate("a")
	for _, redis := range []*miniredis.Miniredis{f.redis, b.promoted} {
		redis.Server().SetPreHook(func(c *server.Peer, command string, _ ...string) bool {
			refuses := redis == b.promoted && b.refuses.Load()
			switch {
			case refuses:
				c.WriteError("NOAUTH Authentication required.")
			case command == "ROLE":
				c.WriteRaw("*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n")
			}
			return refuses || command == "ROLE"
		})
	}
	o := rueidis.ClientOption{InitAddress: []string{"s0:1", "s1:1"}, AlwaysRESP2: resp2, ReadBufferEachConn: 4 << 10, WriteBufferEachConn: 4 << 10, RingScaleEachConn: 7}
	o.Sentinel = rueidis.SentinelOption{MasterSet: "main", Username: "watch", Password: "a"}
	o.DialCtxFn = func(_ context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
		b.dials.Add(1)
		switch host, _, _ := net.SplitHostPort(addr); host {
		case "10.0.0.1":
			return f.redis.Dial()
		case "10.0.0.2":
			return b.promoted.Dial()
		default:
			w := b.sentinels[host[1]-'0']
			return w.dial(w.redis)
		}
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
					bubbleOfUsers(t, func(f *fixture) {
						password, fails := "a", error(nil)
						var options []signalbox.SessionOption
						if !fixed {
							options = append(options, signalbox.WithSentinelCredentials(func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
								return rueidis.AuthCredentials{Username: "watch", Password: password}, fails
							}))
						}
						b := f.behindSentinels(pongs, resp2, options...)
						defer func() { _ = b.session.Close(locktest.Ended()) }()
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

// Users are not replicated. A promoted server that does not know the client's is named in the log, once, with its words, while the session
// lives on what it has; and once when it accepts the client. Meanwhile the client makes at most twenty attempts to connect in a second,
// to sentinels and servers.
func TestAPrimaryThatRefusesTheClientIsNamed(t *testing.T) {
	t.Parallel()
	for _, resp2 := range []bool{false, true} {
		t.Run(fmt.Sprint("resp2=", resp2), func(t *testing.T) {
			t.Parallel()
			bubbleOfUsers(t, func(f *fixture) {
				b := f.behindSentinels(false, resp2)
				defer func() { _ = b.session.Close(locktest.Ended()) }()
				b.use()
				b.refuses.Store(true)
				since, before := time.Now(), b.dials.Load()
				for i, w := range b.sentinels {
					w.name("10.0.0.2")
					b.reconnect(i)
				}
				require.Len(t, matching(b.lines.String(), "the primary that the sentinels name refuses the client"), 1, b.lines.String())
				require.Contains(t, b.lines.String(), "10.0.0.2:6379")
				require.Contains(t, b.lines.String(), "NOAUTH")
				require.LessOrEqual(t, b.dials.Load()-before, 20+20*int64(time.Since(since)/time.Second))
				b.refuses.Store(false)
				for i := range b.sentinels {
					b.reconnect(i)
				}
				require.Len(t, matching(b.lines.String(), "the primary accepts the client"), 1, b.lines.String())
			})
		})
	}
}

// An event of a sentinel that has fewer words than the client reads ends its connection, and not the process. It is named in the log, once
// until there is a whole one. The client continues to receive events.
func TestShortEventsOfASentinelEndItsConnection(t *testing.T) {
	t.Parallel()
	for _, resp2 := range []bool{false, true} {
		bubbleOfUsers(t, func(f *fixture) {
			b := f.behindSentinels(false, resp2)
			defer func() { _ = b.session.Close(locktest.Ended()) }()
			for channel, events := range map[string][]string{ // the last one is whole
				"+sentinel":      {"", "sentinel a s0", "sentinel a s0 1"},
				"+switch-master": {"", "main a 1 10.0.0.1", "main a 1 10.0.0.1 6379"},
				"+reboot":        {"", "master", "master main 10.0.0.1", "master main 10.0.0.1 6379"},
			} {
				before := len(b.lines.String())
				for _, event := range events {
					heard := 0
					for _, w := range b.sentinels {
						heard += w.redis.Publish(channel, event)
					}
					require.Positive(f, heard, "%s %s", channel, event)
					b.use()
				}
				said := b.lines.String()[before:]
				begun := len(matching(said, "a sentinel sends what is no event"))
				require.True(f, begun == 1 || begun == 2, said) // at each sentinel once
				require.Len(f, matching(said, "sentinels send events again"), begun, said)
			}
		})
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
