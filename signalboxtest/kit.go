// SPDX-License-Identifier: Apache-2.0

package signalboxtest

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/testkit"
)

// Kit is a server in memory, with sessions on it. New makes one. It is safe for concurrent use. As with testing.T.FailNow,
// a call that fails the test must be made on the test's own goroutine.
type Kit struct {
	*kitState

	layout []signalbox.LockOption // the layout that In was called with; empty means the default of the sessions
}

// kitState is what all views of a kit share.
type kitState struct {
	tb        testing.TB
	server    *miniredis.Miniredis
	defaults  []signalbox.SessionOption
	losesData bool
	own       *signalbox.Session // the other process, to which Hold and Lose give the lock

	mu      sync.Mutex
	stopped bool               // guarded by mu
	clients []*kitClient       // guarded by mu; the first is the kit's own
	held    map[string]kitHold // what Hold and Lose acquired, by holder key, until the server loses it; guarded by mu
}

// kitHold is what the kit itself has of a name.
type kitHold struct {
	keys   testkit.Keys
	leases []signalbox.Lease
}

// kitClient is a client with a network of its own, and the session on it.
type kitClient struct {
	network *network
	client  rueidis.Client
	session *signalbox.Session // nil for a client alone
}

// Option is an option of New.
type Option func(*Kit)

// SessionDefaults sets options for every session of the kit. WithPrefix and WithHashedNames must be set here, since the
// kit has to know the keys.
func SessionDefaults(options ...signalbox.SessionOption) Option {
	return func(k *Kit) { k.defaults = append(k.defaults, options...) }
}

// LoseData makes Stop lose all data, as a server without persistence does. Without it the data is kept.
func LoseData() Option { return func(k *Kit) { k.losesData = true } }

// New starts a server in memory. It is closed when the test ends, with every session of the kit. In a bubble of
// testing/synctest, tb must be the bubble's.
func New(tb testing.TB, options ...Option) *Kit {
	tb.Helper()
	tokens := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC) // they count from a year before
	if d := time.Until(tokens); d > 0 {
		pause(d) // only a bubble is so early
	}
	k := &Kit{kitState: &kitState{tb: tb, server: miniredis.NewMiniRedis(), held: make(map[string]kitHold)}}
	for _, option := range options {
		option(k)
	}
	k.server.ClockTTL(true)
	tb.Cleanup(k.close)
	// What it holds is the test's doing, and no leak.
	k.own = k.open(signalbox.WithLabel("signalboxtest"), signalbox.WithLogger(slog.New(slog.DiscardHandler))).session
	k.server.Server().SetPreHook(func(*server.Peer, string, ...string) bool {
		testkit.KeepTime(k.server)
		return false
	})
	k.ageServer()
	return k
}

// In returns the kit for locks in the layout of other clients, such as kit.In(setnx.Layout()): its Hold, Lose, Expire,
// IsHeld and HeldBy mean those. All else is shared. Lose, Expire, IsHeld and HeldBy know reentrant, fair and
// read-write locks there, and no permits. Tokens are the server's clock there: in a bubble, let time pass between two
// grants.
func (k *Kit) In(l signalbox.Layout) *Kit {
	return &Kit{k.kitState, []signalbox.LockOption{signalbox.WithLayout(l)}}
}

// ageServer makes the server one that has had its data for long, since a redlock gets no vote of a new one.
func (k *Kit) ageServer() {
	k.tb.Helper()
	epoch := testkit.EpochOf(k.own, time.Now())
	if err := k.server.Set(epoch.Key, epoch.Value); err != nil {
		k.tb.Fatalf("signalboxtest: New: %v", err)
	}
	k.server.SetTTL(epoch.Key, epoch.Life)
}

// Session opens a session on the server, with a connection of its own, as another process would. The kit closes it when
// the test ends; the test may close it before. Leases that are left then are logged to the test's output.
func (k *Kit) Session(options ...signalbox.SessionOption) *signalbox.Session {
	k.tb.Helper()
	s := k.open(options...).session
	known := k.keys("Session", "name")
	if keys, err := testkit.KeysOf(s, "name"); err != nil || keys.Holds[0] != known.Holds[0] {
		k.tb.Fatal("signalboxtest: Session: pass WithPrefix and WithHashedNames to New, by SessionDefaults")
	}
	return s
}

// Client opens a client of the server, for data beside the locks. The kit closes it when the test ends. For locks call
// Session.
func (k *Kit) Client() rueidis.Client {
	k.tb.Helper()
	return k.add(k.dial()).client
}

// open opens a session. Options that come later count.
func (k *Kit) open(options ...signalbox.SessionOption) *kitClient {
	k.tb.Helper()
	u := k.dial()
	logger := signalbox.WithLogger(slog.New(slog.NewTextHandler(k.tb.Output(), nil)))
	u.session = signalbox.NewSession(u.client, slices.Concat([]signalbox.SessionOption{logger}, k.defaults, options)...)
	return k.add(u)
}

func (k *Kit) dial() *kitClient {
	k.tb.Helper()
	k.mustRun("Session")
	u := &kitClient{network: &network{server: k.server}}
	o := rueidis.ClientOption{
		// The embedded server knows no client-side caching, and says that it is a cluster.
		InitAddress: []string{"signalboxtest"}, ForceSingleClient: true, AlwaysRESP2: true,
		// A connection's memory is a megabyte by default, which took longer than most tests.
		ReadBufferEachConn: 4 << 10, WriteBufferEachConn: 4 << 10, RingScaleEachConn: 7,
		DialCtxFn: func(ctx context.Context, _ string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return u.network.dial(ctx)
		},
		ConnLifetime: -1, // there is one server, and an hour in a bubble would have a thousand connections
	}
	o.Dialer.KeepAlive = 10 * time.Second // an hour in a bubble has 360 of them
	signalbox.Tune(&o)
	client, err := rueidis.NewClient(o)
	if err != nil {
		k.tb.Fatalf("signalboxtest: Session: %v", err)
	}
	u.client = client
	return u
}

// add makes a user known, which is never written to after that. If Stop came meanwhile, it applies to this user, too.
func (k *Kit) add(u *kitClient) *kitClient {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.clients = append(k.clients, u)
	if k.stopped {
		u.network.stop()
	}
	return u
}

// allClients returns the users at the moment.
func (k *Kit) allClients() []*kitClient {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.clients)
}

// close ends everything. The server is back before, and paused processes run, so that leases that are left are released at
// once. Sessions wait for no lease: their context has ended.
func (k *Kit) close() {
	for _, u := range k.allClients() {
		u.network.restore()
		if u.session != nil {
			testkit.Resume(u.session)
		}
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	var closing sync.WaitGroup
	for _, u := range k.allClients() {
		closing.Go(func() {
			if u.session != nil {
				_ = u.session.Close(ended) // it has logged what was left
			}
			u.client.Close()
		})
	}
	closing.Wait()
	k.server.Close()
}

// mustRun fails the test if the server is stopped.
func (k *Kit) mustRun(call string) {
	k.tb.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stopped {
		k.tb.Fatalf("signalboxtest: %s: the server is stopped; call Start first", call)
	}
}

// keys returns the keys of a name, or fails the test.
func (k *Kit) keys(call, name string) testkit.Keys {
	k.tb.Helper()
	keys, err := testkit.KeysOf(k.own, name, k.layout...)
	if err != nil {
		k.tb.Fatalf("signalboxtest: %s(%q): %v", call, name, err)
	}
	return keys
}

// pause blocks for d, by the bubble's clock in a bubble.
func pause(d time.Duration) { <-time.NewTimer(d).C }
