// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/countdown"
	"github.com/signalbox-go/signalbox/election"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/shards"
)

// lateFixture is a session that is made while its server is away, and its log.
type lateFixture struct {
	*fixture

	s     *signalbox.Session
	link  *wire
	lines *logLines
	dials atomic.Int64 // the attempts to connect
	open  atomic.Int64 // the connections that the client has not closed
}

// openConn is a connection that counts as open until it is closed.
type openConn struct {
	net.Conn

	closed atomic.Bool
	open   *atomic.Int64
}

// Close implements net.Conn.
func (c *openConn) Close() error {
	if !c.closed.Swap(true) {
		c.open.Add(-1)
	}
	return c.Conn.Close()
}

// bubbleOfLate runs a test with a session whose connections are refused. mods change the options of its client.
func bubbleOfLate(t *testing.T, test func(l *lateFixture), mods ...func(*rueidis.ClientOption)) {
	t.Helper()
	bubbleOfUsers(t, func(f *fixture) {
		l := &lateFixture{fixture: f}
		o, link := f.clientOption(mods...)
		dial := o.DialCtxFn
		o.DialCtxFn = func(ctx context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
			l.dials.Add(1)
			conn, err := dial(ctx, addr, dialer, config)
			if err != nil {
				return nil, err
			}
			l.open.Add(1)
			return &openConn{Conn: conn, open: &l.open}, nil
		}
		link.refuses.Store(true)
		logger, lines := logged()
		s, err := signalbox.DialWith(f.Context(), o, signalbox.WithLazyConnect(), signalbox.WithLogger(logger))
		require.NoError(f, err)
		l.s, l.link, l.lines = s, link, lines
		test(l)
		_ = s.Close(locktest.Ended())
		require.NoError(f, s.Close(context.Background()))
		time.Sleep(time.Second)
		synctest.Wait()
		require.Zero(f, locktest.Goroutines())
	})
}

// waits makes n calls of Lock, each of a lock of its own, and returns their outcomes.
func (l *lateFixture) waits(ctx context.Context, n int) <-chan error {
	ended := make(chan error, n)
	for i := range n {
		mu := reentrant.New(l.s, fmt.Sprint(i))
		go func() {
			lease, err := mu.Lock(ctx)
			_ = lease.Unlock()
			ended <- err
		}()
	}
	return ended
}

// P7: without a call there is one attempt to connect, and none follows when the last call has given up. Calls that wait share attempts, about one
// a second.
func TestFirstConnection_CallsShareAttempts(t *testing.T) {
	t.Parallel()
	const n = 100
	bubbleOfLate(t, func(l *lateFixture) {
		time.Sleep(time.Hour)
		require.EqualValues(l, 1, l.dials.Load())
		gaveUp, cancel := context.WithTimeout(l.Context(), 5*time.Second)
		defer cancel()
		require.ErrorIs(l, <-l.waits(gaveUp, 1), context.DeadlineExceeded)
		after := l.dials.Load()
		time.Sleep(time.Hour)
		require.Equal(l, after, l.dials.Load())
		before := after
		ended := l.waits(context.Background(), n)
		time.Sleep(time.Minute)
		require.GreaterOrEqual(l, l.dials.Load()-before, int64(55))
		require.LessOrEqual(l, l.dials.Load()-before, int64(115))
		l.link.refuses.Store(false)
		lasted := took(func() {
			for range n {
				require.NoError(l, <-ended)
			}
		})
		require.LessOrEqual(l, lasted, 1100*time.Millisecond)

		time.Sleep(time.Minute)
		after = l.dials.Load()
		time.Sleep(time.Hour)
		require.Equal(l, after, l.dials.Load())
	})
}

// A reply for good ends every call that waits, and no later one: the next call asks anew.
func TestFirstConnection_AReplyForGoodIsNotKept(t *testing.T) {
	t.Parallel()
	const n = 20
	for words, kind := range map[string]error{
		"WRONGPASS invalid username-password pair or user is disabled for sekret-123.": signalbox.ErrDenied,
		"NOAUTH Authentication required.":                                              signalbox.ErrDenied,
		"ERR DB index is out of range":                                                 signalbox.ErrBadOption,
	} {
		bubbleOfLate(t, func(l *lateFixture) {
			var refuses atomic.Bool
			refuses.Store(true)
			l.redis.RequireUserAuth("user", "sekret-123")
			l.redis.Server().SetPreHook(func(c *server.Peer, _ string, _ ...string) bool {
				if refuses.Load() {
					c.WriteError(words)
				}
				return refuses.Load()
			})
			ended := l.waits(context.Background(), n)
			time.Sleep(10 * time.Second)
			require.Empty(l, ended)
			l.link.refuses.Store(false)
			lasted := took(func() {
				for range n {
					err := <-ended
					require.ErrorIs(l, err, kind)
					require.NotContains(l, err.Error(), "sekret")
				}
			})
			require.LessOrEqual(l, lasted, 1100*time.Millisecond, words)
			require.ErrorIs(l, l.s.Ping(l.Context()), kind, "in the pause after it")
			refuses.Store(false)
			lease, err := reentrant.New(l.s, "a").Lock(l.Context())
			require.NoError(l, err)
			require.NoError(l, lease.Unlock())
			require.NotContains(l, l.lines.String(), "sekret")
			require.Contains(l, l.lines.String(), "level=WARN", words)
		}, func(o *rueidis.ClientOption) { o.Username, o.Password, o.SelectDB = "user", "sekret-123", 1 })
	}
}

// Everything else is waited for: a replica, the words of a mesh, a server that loads its data, and a name that does not resolve.
func TestFirstConnection_AnythingElseIsWaitedForAndLogged(t *testing.T) {
	t.Parallel()
	unresolved := &net.DNSError{Err: "no such host", Name: "redis.example", IsNotFound: true}
	for name, c := range map[string]struct {
		says   func(c *server.Peer, command string) bool
		dial   error // why no connection can be made
		logged string
	}{
		"Refused": {dial: &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}, logged: "connection refused"},
		"Name":    {dial: &net.OpError{Op: "dial", Net: "tcp", Err: unresolved}, logged: "repair the name of the host"},
		"Replica": {func(c *server.Peer, command string) bool {
			if command == "INFO" {
				c.WriteBulk("role:slave\r\nmaster_host:10.0.0.1\r\nmaster_port:6379\r\n")
			}
			return command == "INFO"
		}, nil, "it is a replica of 10.0.0.1:6379"},
		"Mesh": {func(c *server.Peer, _ string) bool {
			c.WriteError("no healthy upstream")
			return true
		}, nil, "no healthy upstream"},
		"Web": {func(c *server.Peer, _ string) bool {
			c.WriteRaw("HTTP/1.1 503 Service Unavailable\r\n\r\n")
			c.Close()
			return true
		}, nil, "this is a web server"},
		"Loading": {func(c *server.Peer, _ string) bool {
			c.WriteError("LOADING Redis is loading the dataset in memory")
			return true
		}, nil, "wait until the server has read its data"},
		"Silent": {func(*server.Peer, string) bool { return true }, nil, "says nothing"},
	} {
		var away atomic.Bool
		away.Store(true)
		bubbleOfLate(t, func(l *lateFixture) {
			l.redis.Server().SetPreHook(func(peer *server.Peer, command string, _ ...string) bool {
				return c.says != nil && away.Load() && c.says(peer, command)
			})
			l.link.refuses.Store(false)
			ended := l.waits(context.Background(), 3)
			time.Sleep(4 * time.Second)
			require.NotContains(l, l.lines.String(), "level=WARN", name)
			time.Sleep(56 * time.Second)
			require.Empty(l, ended, name)
			require.Equal(l, 1, strings.Count(l.lines.String(), "level=WARN"), "%s: %s", name, l.lines)
			require.Contains(l, l.lines.String(), c.logged, name)
			away.Store(false)
			for range 3 {
				require.NoError(l, <-ended, name)
			}
			synctest.Wait()
			require.Regexp(l, "the server (can be reached|accepts calls) again", l.lines, name)
		}, func(o *rueidis.ClientOption) {
			dial := o.DialCtxFn
			o.DialCtxFn = func(ctx context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
				if c.dial != nil && away.Load() {
					return nil, c.dial
				}
				return dial(ctx, addr, dialer, config)
			}
		})
	}
}

// The log says again what to do if the reason changes: a server that was away then loads its data. Calls report the last one, also after many
// others.
func TestFirstConnection_AnotherReasonIsLogged(t *testing.T) {
	t.Parallel()
	bubbleOfLate(t, func(l *lateFixture) {
		var loads atomic.Bool
		loads.Store(true)
		l.redis.Server().SetPreHook(func(c *server.Peer, _ string, _ ...string) bool {
			if loads.Load() {
				c.WriteError("LOADING Redis is loading the dataset in memory")
			}
			return loads.Load()
		})
		ended := l.waits(context.Background(), 1)
		time.Sleep(10 * time.Second)
		require.Equal(l, 1, strings.Count(l.lines.String(), "level=WARN"), l.lines)
		l.link.refuses.Store(false)
		time.Sleep(10 * time.Second)
		require.Equal(l, 2, strings.Count(l.lines.String(), "level=WARN"), l.lines)
		time.Sleep(3 * time.Minute)
		require.ErrorContains(l, l.s.Ping(l.Context()), "LOADING")
		l.link.goSilent()
		time.Sleep(10 * time.Second)
		require.ErrorContains(l, l.s.Ping(l.Context()), "says nothing")
		loads.Store(false)
		l.link.heal()
		require.NoError(l, <-ended)
	})
}

// Whatever the attempt does when it begins, Close returns in time, ends every call, and leaves no goroutine and no connection.
func TestFirstConnection_CloseEndsIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(l *lateFixture)
		mod     func(o *rueidis.ClientOption, opened *atomic.Int64)
	}{
		"Refused": {func(*lateFixture) {}, func(*rueidis.ClientOption, *atomic.Int64) {}},
		"Silent": {func(l *lateFixture) {
			l.link.goSilent()
			l.link.refuses.Store(false)
		}, func(*rueidis.ClientOption, *atomic.Int64) {}},
		"SlowToSayAnything": {func(l *lateFixture) {
			l.link.goSilent()
			l.link.refuses.Store(false)
		}, func(o *rueidis.ClientOption, _ *atomic.Int64) {
			o.Dialer.Timeout, o.ConnWriteTimeout = time.Hour, time.Hour
		}},
		"Blackhole": {func(*lateFixture) {}, func(o *rueidis.ClientOption, _ *atomic.Int64) {
			o.Dialer.Timeout = time.Hour
			o.DialCtxFn = func(ctx context.Context, _ string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
		}},
		"ConnectionComesLater": {func(*lateFixture) {}, func(o *rueidis.ClientOption, opened *atomic.Int64) {
			o.DialCtxFn = func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
				time.Sleep(1600 * time.Millisecond) // 600 ms after Close
				client, other := net.Pipe()
				opened.Add(1)
				go func() {
					defer opened.Add(-1)
					_, _ = other.Read(make([]byte, 1))
				}()
				return client, nil
			}
		}},
		"Loading": {func(l *lateFixture) {
			l.redis.Server().SetPreHook(func(c *server.Peer, _ string, _ ...string) bool {
				c.WriteError("LOADING Redis is loading the dataset in memory")
				return true
			})
			l.link.refuses.Store(false)
		}, func(*rueidis.ClientOption, *atomic.Int64) {}},
	} {
		var opened atomic.Int64
		bubbleOfLate(t, func(l *lateFixture) {
			c.prepare(l)
			calls := []func(ctx context.Context) error{
				func(ctx context.Context) error { return no(reentrant.New(l.s, "a").Lock(ctx)) },
				func(ctx context.Context) error { return no(reentrant.New(l.s, "a").Lock(ctx)) },
				func(ctx context.Context) error { return lastOf(election.New(l.s, "b").Observe(ctx)) },
				func(ctx context.Context) error { return no(election.New(l.s, "b").Campaign(ctx)) },
				countdown.New(l.s, "c").RoundOf(1).Wait,
				func(ctx context.Context) error { return no(countdown.New(l.s, "c").Start(ctx, 1)) },
				func(ctx context.Context) error { return no(shards.New(l.s, "d", shards.Count(1)).Join(ctx)) },
			}
			ended := make(chan error, len(calls))
			for _, call := range calls {
				go func() { ended <- call(context.Background()) }()
			}
			time.Sleep(time.Second)
			require.LessOrEqual(l, took(func() { require.NoError(l, l.s.Close(context.Background()), name) }), time.Second, name)
			for range calls {
				require.ErrorIs(l, <-ended, signalbox.ErrClosed, name)
			}
			require.ErrorIs(l, l.s.Ping(l.Context()), signalbox.ErrClosed)
			time.Sleep(time.Second)
			synctest.Wait()
			require.Zero(l, locktest.Goroutines(), name)
			require.Zero(l, l.open.Load(), name)
			require.Zero(l, opened.Load(), "a connection that comes later is closed")
		}, func(o *rueidis.ClientOption) { c.mod(o, &opened) })
	}
}

// A limit of waiters holds before the first connection, too.
func TestFirstConnection_WaitersAreLimited(t *testing.T) {
	t.Parallel()
	bubbleOfLate(t, func(l *lateFixture) {
		mu := reentrant.New(l.s, "a", signalbox.WithMaxWaiters(1))
		first := l.later(func() error { return no(mu.Lock(context.Background())) })
		require.ErrorIs(l, no(mu.Lock(l.Context())), signalbox.ErrBusy)
		l.link.refuses.Store(false)
		require.NoError(l, <-first)
	})
}

// Dial returns at once the errors that need no server, and no others.
func TestFirstConnection_WhatNeedsNoServerIsChecked(t *testing.T) {
	t.Parallel()
	bubbleOfLate(t, func(l *lateFixture) {
		c, _ := l.client(l.T)
		defer c.Close()
		s := signalbox.NewSession(c, signalbox.WithLazyConnect())
		require.ErrorIs(l, reentrant.New(s, "a").Check(), signalbox.ErrBadOption)
		require.ErrorIs(l, s.Ping(l.Context()), signalbox.ErrBadOption)
		dial := func(ctx context.Context, url string, options ...signalbox.SessionOption) error {
			return no(signalbox.Dial(ctx, url, append(options, signalbox.WithLazyConnect())...))
		}
		require.ErrorIs(l, dial(l.Context(), "redis://a:1?unknown=1"), signalbox.ErrBadOption)
		require.ErrorIs(l, dial(l.Context(), "rediss://a:1?ca=/missing"), signalbox.ErrBadOption)
		require.ErrorIs(l, dial(l.Context(), "redis://a:1", signalbox.WithPrefix("{")), signalbox.ErrBadOption)
		require.ErrorIs(l, dial(l.Context(), "redis://a:1", signalbox.WithDefaults(signalbox.WithClass("\n"))), signalbox.ErrBadOption)
		require.ErrorIs(l, dial(locktest.Ended(), "redis://a:1"), context.Canceled)
		secret := rueidis.ClientOption{InitAddress: []string{"a:1"}, TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
		secret.Sentinel = rueidis.SentinelOption{MasterSet: "main", Password: "p"}
		require.ErrorIs(l, no(signalbox.DialWith(l.Context(), secret, signalbox.WithLazyConnect())), signalbox.ErrBadOption)
		require.NoError(l, reentrant.New(l.s, "}{", signalbox.WithLayout(redisson.Layout())).Check(), "it may be no cluster")
	})
}
