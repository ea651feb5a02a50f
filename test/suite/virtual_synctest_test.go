// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/testkit"
)

// adminName is the client of the test itself, which no server refuses.
const adminName = "admin"

// clients counts clients and real worlds. What the library knows of an address is for the whole process, so each client has one of
// its own.
var clients atomic.Int64

// newVirtual returns a world with so many embedded servers. It is called in a bubble of synctest.
func newVirtual(t *testing.T, servers int) *World {
	t.Helper()
	w := &World{T: t, Life: 30 * time.Second, Grace: 20 * time.Millisecond, Virtual: true, patience: time.Second}
	w.client = func(server int, mod func(*rueidis.ClientOption)) rueidis.Client {
		o := rueidis.ClientOption{
			InitAddress: []string{fmt.Sprint("embedded/", clients.Add(1))}, ForceSingleClient: true, AlwaysRESP2: true,
			// The memory of a connection, of which the default is a megabyte, would be half of the time of these tests.
			ReadBufferEachConn: 4 << 10, WriteBufferEachConn: 4 << 10, RingScaleEachConn: 7,
			ConnLifetime: -1, // hours would make thousands of connections
			DialCtxFn: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
				return w.redis[server].Dial()
			},
		}
		o.Dialer.KeepAlive = time.Second
		mod(&o)
		c, err := rueidis.NewClient(o)
		require.NoError(t, err)
		return c
	}
	for i := range servers {
		w.serve(i)
	}
	return w
}

// serve starts an embedded server. One of several has had its data for long enough to grant a redlock.
func (w *World) serve(i int) {
	w.Helper()
	redis := miniredis.NewMiniRedis()
	w.redis = append(w.redis, redis)
	redis.ClockTTL(true)
	first, err := redis.Dial() // makes the server
	require.NoError(w, err)
	require.NoError(w, first.Close())
	w.atEnd(func() {
		redis.Close()
		time.Sleep(10 * time.Second) // what was on its way has arrived, or found its connection closed
	})
	redis.Server().SetPreHook(func(p *server.Peer, command string, _ ...string) bool {
		words := w.refusal.Load()
		refused := words != nil && strings.HasPrefix(command, "EVAL") && p.ClientName != adminName
		if refused {
			p.WriteError(*words)
		}
		return refused
	})
	w.open(i)
	s := signalbox.NewSession(w.admins[i])
	defer s.Close(w.Context())
	epoch := testkit.EpochOf(s, time.Now())
	require.NoError(w, redis.Set(epoch.Key, epoch.Value))
	redis.SetTTL(epoch.Key, epoch.Life)
}

// NoSubscribers requires that no process listens.
func (w *World) NoSubscribers() {
	w.Helper()
	for _, redis := range w.redis {
		require.Empty(w, redis.PubSubChannels(""))
	}
}

// Refuses lets the server of a virtual world refuse all scripts in these words, nothing if there are no words.
func (w *World) Refuses(words string) {
	if words == "" {
		w.refusal.Store(nil)
	} else {
		w.refusal.Store(&words)
	}
}

// started returns how many goroutines of the caller's bubble the library has started.
func started() int {
	return locktest.GoroutinesThat(func(calls string) bool {
		const library = "github.com/signalbox-go/signalbox/"
		_, by, _ := strings.Cut(calls, "created by ")
		return strings.HasPrefix(by, library) && !strings.HasPrefix(by, library+"test/") && !strings.HasPrefix(by, library+"internal/testing/")
	})
}
