// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
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
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/scripts"
)

// fixture is an embedded server in a bubble, and its commands.
type fixture struct {
	*testing.T // the test of the bubble

	probe    time.Duration // the interval of probes on idle connections, 10 s if 0
	redis    *miniredis.Miniredis
	commands atomic.Int64 // the commands, without those that keep connections alive
	scripts  atomic.Int64 // the commands that run a script
	ends     []func()     // the functions that the test calls at its end
}

// newEmbedded returns a server in the process.
func newEmbedded(t *testing.T) *miniredis.Miniredis {
	t.Helper()
	redis := miniredis.NewMiniRedis()
	redis.ClockTTL(true)
	first, err := redis.Dial() // which makes the server
	require.NoError(t, err)
	require.NoError(t, first.Close())
	synctest.Wait() // until the server knows that it is closed
	return redis
}

// bubbleOfUsers runs a test in virtual time, which begins after the time that tokens count from. What the test opens by user, open and the
// like is closed when it ends.
func bubbleOfUsers(t *testing.T, test func(f *fixture)) {
	t.Helper()
	locktest.Bubble(t, func(t *testing.T) {
		f := &fixture{T: t, redis: newEmbedded(t)}
		f.redis.Server().SetPreHook(func(_ *server.Peer, command string, _ ...string) bool {
			if command != "PING" {
				f.commands.Add(1)
			}
			if strings.HasPrefix(command, "EVAL") {
				f.scripts.Add(1)
			}
			return false
		})
		defer arrive()
		defer f.redis.Close()
		defer func() {
			for _, end := range slices.Backward(f.ends) {
				end()
			}
		}()
		test(f)
	})
}

// runs reports whether a command runs a script.
func runs(script *scripts.Script, command string, args []string) bool {
	return command == "EVALSHA" && args[0] == script.SHA1 || command == "EVAL" && args[0] == script.Source
}

// slotMoves is how a cluster refuses a script of several keys while their slot moves.
const slotMoves = "TRYAGAIN Multiple keys request during rehashing of slot"

// refusesScripts makes the server refuse what runs a script with the words that a function returns, unless these are "". It is not called
// for the commands of a script, which has the server's lock.
func (f *fixture) refusesScripts(words func(command string, args []string) string) {
	f.redis.Server().SetPreHook(func(c *server.Peer, command string, args ...string) bool {
		if !strings.HasPrefix(command, "EVAL") {
			return false
		}
		refusal := words(command, args)
		if refusal != "" {
			c.WriteError(refusal)
		}
		return refusal != ""
	})
}

// arrive waits until everything that was under way on a wire has arrived, or found it closed.
func arrive() { time.Sleep(10 * time.Second) }

// clientCount counts clients. What the library knows of an address is for the whole process.
var clientCount atomic.Int64

// client returns a client with a wire of its own. mods change its options.
func (f *fixture) client(t *testing.T, mods ...func(*rueidis.ClientOption)) (rueidis.Client, *wire) {
	t.Helper()
	o, link := f.clientOption(mods...)
	signalbox.Tune(&o)
	c, err := rueidis.NewClient(o)
	require.NoError(t, err)
	return c, link
}

// clientOption returns the options of a client with a wire of its own.
func (f *fixture) clientOption(mods ...func(*rueidis.ClientOption)) (rueidis.ClientOption, *wire) {
	link := &wire{}
	o := rueidis.ClientOption{
		InitAddress: []string{fmt.Sprint("embedded/", clientCount.Add(1))}, ForceSingleClient: true, AlwaysRESP2: true,
		// A connection's memory, of which the default is a megabyte, was half of the time of these tests.
		ReadBufferEachConn: 4 << 10, WriteBufferEachConn: 4 << 10, RingScaleEachConn: 7,
		DialCtxFn:    func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) { return link.dial(f.redis) },
		ConnLifetime: -1, // tests that last for hours would make thousands of connections
	}
	o.Dialer.KeepAlive = cmp.Or(f.probe, 10*time.Second) // ten hours have too many seconds
	for _, mod := range mods {
		mod(&o)
	}
	return o, link
}

// lateSession returns a session whose first attempt to connect has been refused, and what closes it.
func (f *fixture) lateSession(t *testing.T, options ...signalbox.SessionOption) (*signalbox.Session, *wire, func()) {
	t.Helper()
	o, link := f.clientOption()
	link.refuses.Store(true)
	s, err := signalbox.DialWith(t.Context(), o, append(options, signalbox.WithLazyConnect())...)
	require.NoError(t, err)
	return s, link, func() { _ = s.Close(locktest.Ended()) }
}

// session returns a session on a wire of its own, and what closes both.
func (f *fixture) session(t *testing.T, options ...signalbox.SessionOption) (*signalbox.Session, *wire, func()) {
	t.Helper()
	c, link := f.client(t)
	s := signalbox.NewSession(c, options...)
	return s, link, func() {
		_ = s.Close(locktest.Ended()) // says that leases were left, which the test knows
		c.Close()
	}
}

// user opens a session.
func (f *fixture) user(options ...signalbox.SessionOption) queueUser {
	f.T.Helper()
	s, link, end := f.session(f.T, options...)
	f.ends = append(f.ends, end)
	return queueUser{s, link}
}

// open opens a session, and returns its wire, too.
func (f *fixture) open(options ...signalbox.SessionOption) (*signalbox.Session, *wire) {
	f.T.Helper()
	u := f.user(options...)
	return u.Session, u.wire
}

// left returns how long the hold of the lock lasts, 0 if no session holds it. A key with a mark outlives its hold.
func (f *fixture) left(name string) time.Duration {
	const mark, outlives = 62, 15 * time.Second
	value, err := f.redis.Get(locktest.Key(name))
	if err != nil || !locktest.IsHeld(value) {
		return 0
	}
	left := f.redis.TTL(locktest.Key(name))
	if value[mark] == 'q' {
		left = max(left-outlives, 0)
	}
	return left
}

// resting returns how many goroutines there are between batches, as goroutines counts them: a renewal or a poll may be under
// way at one moment.
func resting() int {
	least := locktest.Goroutines()
	for range 10 {
		time.Sleep(7 * time.Millisecond)
		least = min(least, locktest.Goroutines())
	}
	return least
}

// requireIdle fails the test if a session still does something in the background.
func requireIdle(t *testing.T, sessions ...*signalbox.Session) {
	t.Helper()
	for _, s := range sessions {
		require.True(t, (*session.Handle)(s).Session().IsIdle(), "something is under way")
	}
}
