// SPDX-License-Identifier: Apache-2.0

package goredis_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/contrib/goredis"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// The session of a client works, on the same server with the same identity, and its Close leaves the client alone.
func TestASessionOfAClientWorks(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "s")
	server := redistest.Start(t, redistest.WithArgs("--unixsocket", socket))
	server.MustDo(t, "ACL", "SETUSER", "teller", "on", ">right", "~*", "&*", "+@all")
	secure, mutual := redistest.Start(t, redistest.WithTLS()), redistest.Start(t, redistest.WithClientCertificates())
	var dials atomic.Int32
	dialer := func(ctx context.Context, network, addr string) (net.Conn, error) {
		dials.Add(1)
		require.Equal(t, "redis.invalid:1", addr)
		return new(net.Dialer).DialContext(ctx, network, server.Addr())
	}
	t.Cleanup(func() { require.Greater(t, dials.Load(), int32(2), "the session dials with it as well") })
	for name, options := range map[string]*redis.Options{
		"Plain":  {Addr: server.Addr()},
		"User":   {Addr: server.Addr(), Username: "teller", Password: "right", DB: 3, ClientName: "shop"},
		"Unix":   {Addr: socket, Network: "unix"},
		"TLS":    {Addr: secure.Addr(), Network: "tcp4", TLSConfig: secure.TLSConfig()},
		"Mutual": {Addr: mutual.Addr(), TLSConfig: mutual.TLSConfig()},
		"Dialer": {Addr: "redis.invalid:1", Dialer: dialer},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := redis.NewClient(options)
			defer func() { require.NoError(t, client.Close()) }()
			use(t, name, func() (*signalbox.Session, error) { return goredis.Dial(t.Context(), client) }, client)
			use(t, name, func() (*signalbox.Session, error) { return goredis.Dial(t.Context(), &traced{client}) }, client)
			use(t, name, func() (*signalbox.Session, error) { return goredis.Dial(t.Context(), &hidden{hidden{client}}) }, client)
			use(t, name, func() (*signalbox.Session, error) { return goredis.DialOptions(t.Context(), options) }, client)
		})
	}
}

// use locks in a session, with a waiter, and checks that the client sees the lock and survives the session.
func use(t *testing.T, name string, dial func() (*signalbox.Session, error), client redis.UniversalClient) {
	t.Helper()
	s, err := dial()
	require.NoError(t, err)
	lease := locktest.Must(t, reentrant.New(s, name).Lock)
	waiting := locktest.LaterWith(t.Context(), fair.New(s, name).Lock)
	keys, err := client.Exists(t.Context(), locktest.Key(name)).Result()
	require.NoError(t, err)
	require.Equal(t, int64(1), keys, "it is in the database of the client")
	require.NoError(t, lease.Unlock())
	require.NoError(t, locktest.MustHave(t, waiting).Unlock())
	require.NoError(t, s.Close(t.Context()))
	require.NoError(t, client.Ping(t.Context()).Err(), "Close leaves the client alone")
}

func TestASessionOfAClusterClientWorks(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	var addrs []string
	for _, node := range cluster.Servers() {
		addrs = append(addrs, node.Addr())
	}
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs[:1]})
	defer func() { require.NoError(t, client.Close()) }()
	for i := range 5 { // in several slots
		use(t, fmt.Sprint("cluster/", i), func() (*signalbox.Session, error) { return goredis.Dial(t.Context(), client) }, client)
	}
	universal := &redis.UniversalOptions{Addrs: addrs}
	single := redis.NewClient(&redis.Options{Addr: addrs[0]}) // as NewUniversalClient makes of one address
	defer func() { require.NoError(t, single.Close()) }()
	for i := range 5 {
		use(t, fmt.Sprint("single/", i), func() (*signalbox.Session, error) { return goredis.Dial(t.Context(), single) }, client)
	}
	use(t, "universal", func() (*signalbox.Session, error) { return goredis.DialOptions(t.Context(), universal) }, client)

	for _, addr := range addrs[:3] { // the primaries, by what is one server: a path in the file system
		toNode := func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", addr)
		}
		_, err := goredis.DialOptions(t.Context(), &redis.Options{Network: "unix", Addr: "/s", Dialer: toNode})
		require.ErrorIs(t, err, signalbox.ErrUnsupported)
		require.ErrorContains(t, err, "as Dial of host:port does")
	}
}

// Sentinels have a user of their own, and never get the server's. A lease outlives a failover, and a waiter is granted the lock
// by the new primary.
func TestASessionBehindSentinelsSurvivesAFailover(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "a failover takes seconds")
	nodes := redistest.StartSentinel(t)
	var addrs []string
	for _, watcher := range nodes.Sentinels() {
		watcher.MustDo(t, "ACL", "SETUSER", "watch", "on", ">wright", "allchannels", "+@all")
		watcher.MustDo(t, "ACL", "LOG", "RESET")
		addrs = append(addrs, watcher.Addr())
	}
	primary := nodes.Primary(t)
	for _, server := range []*redistest.Server{primary, nodes.Replica(t)} {
		server.MustDo(t, "ACL", "SETUSER", "teller", "on", ">right", "~*", "&*", "+@all")
	}
	s, err := goredis.DialOptions(t.Context(), &redis.FailoverOptions{
		MasterName: redistest.MasterSet, SentinelAddrs: addrs, SentinelUsername: "watch", SentinelPassword: "wright",
		CredentialsProvider: func() (string, string) { return "teller", "right" },
	})
	require.NoError(t, err)
	lease := locktest.Must(t, reentrant.New(s, "a", signalbox.WithRenewedLease(30*time.Second), signalbox.WithFirstLease(30*time.Second)).Lock)
	primary.AwaitCopied(t, nodes.Replica(t))
	primary.Kill()
	nodes.AwaitFailover(t, primary)
	waiting := locktest.LaterWith(t.Context(), fair.New(s, "a").Lock)
	require.NoError(t, locktest.Must(t, reentrant.New(s, "b").Lock).Unlock())
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Unlock())
	require.NoError(t, locktest.MustHave(t, waiting).Unlock())
	require.NoError(t, s.Close(t.Context()))
	for _, watcher := range nodes.Sentinels() {
		require.NotContains(t, fmt.Sprint(watcher.MustDo(t, "ACL", "LOG")), "teller", "the server's user is not for sentinels")
	}
}

// The password changes, and all connections end, while a lock is held, another one is waited for and a third one is acquired.
func TestAPasswordIsRotatedUnderLocks(t *testing.T) {
	t.Parallel()
	provider := new(tokens)
	server := redistest.Start(t)
	set := func(password string) {
		server.MustDo(t, "ACL", "SETUSER", "teller", "on", "resetpass", ">"+password, "~*", "&*", "+@all")
		provider.set(password)
	}
	set("first")
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), StreamingCredentialsProvider: provider})
	log := locktest.NewSecrets(t)
	s, err := goredis.Dial(t.Context(), client, signalbox.WithLogger(log.Logger()))
	require.NoError(t, err)
	require.NoError(t, client.Close(), "the session does not need it")
	long := signalbox.WithFirstLease(30 * time.Second)
	held := locktest.Must(t, reentrant.New(s, "held", long).Lock)
	other := locktest.Must(t, fair.New(s, "other", long).Lock)
	waiting := locktest.LaterWith(t.Context(), fair.New(s, "other").Lock)
	set("second")
	server.MustDo(t, "CLIENT", "KILL", "USER", "teller")
	require.NoError(t, locktest.Must(t, reentrant.New(s, "third").Lock).Unlock())
	require.NoError(t, other.Unlock())
	require.NoError(t, locktest.MustHave(t, waiting).Unlock())
	require.NoError(t, held.Err())
	require.NoError(t, held.Unlock())
	require.Equal(t, 1, provider.subscribed(), "it renews its token while somebody listens")
	provider.push("", errors.New("the identity service is away"))
	redistest.Await(t, "a line in the log of the session", func() bool { return strings.Contains(log.Recorded(), "the identity service is away") })
	require.NoError(t, s.Close(t.Context()))
	require.Zero(t, provider.subscribed())
	require.False(t, provider.wasStopped(), "before Close it always had a listener")
}

// A static password that changes at the server leaves a session waiting for it, as a service with go-redis would: what is held
// stays until its lease is over, and the session works again when the server takes the password again.
func TestAStaticPasswordIsWaitedFor(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	set := func(password string) {
		server.MustDo(t, "ACL", "SETUSER", "teller", "on", "resetpass", ">"+password, "~*", "&*", "+@all")
	}
	set("right")
	s, err := goredis.DialOptions(t.Context(), &redis.Options{Addr: server.Addr(), Username: "teller", Password: "right"})
	require.NoError(t, err)
	held := locktest.Must(t, reentrant.New(s, "held", signalbox.WithFirstLease(30*time.Second)).Lock)
	set("another")
	server.MustDo(t, "CLIENT", "KILL", "USER", "teller")
	waiting := locktest.LaterWith(t.Context(), reentrant.New(s, "a").Lock)
	redistest.Await(t, "a denial", func() bool {
		return strings.Contains(fmt.Sprint(server.MustDo(t, "ACL", "LOG")), "teller")
	})
	set("right")
	require.NoError(t, locktest.MustHave(t, waiting).Unlock())
	require.NoError(t, held.Unlock())
	require.NoError(t, s.Close(t.Context()))
}

// P10: wrong credentials are ErrDenied, with the server's words and without the password.
func TestWrongCredentialsAreDenied(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	_, err := goredis.DialOptions(t.Context(), &redis.Options{Addr: server.Addr(), Username: "teller", Password: "zecret"})
	require.ErrorIs(t, err, signalbox.ErrDenied)
	require.NotContains(t, err.Error(), "zecret")
	_, err = goredis.DialOptions(t.Context(), &redis.Options{Addr: server.Addr(), TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12}})
	require.ErrorContains(t, err, server.Addr(), "it names the server")
}

// tokens is a provider of credentials whose token changes.
type tokens struct {
	mu struct {
		sync.Mutex
		onSubscribe func() error // called by Subscribe; nil is no error
		token       string
		listeners   map[auth.CredentialsListener]bool
		stopped     bool // a listener came after the last one had left
	}
}

// wasStopped reports whether there was a time without a listener between two of them.
func (t *tokens) wasStopped() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.stopped
}

func (t *tokens) set(token string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.token = token
}

func (t *tokens) setOnSubscribe(call func() error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.onSubscribe = call
}

// push passes a token to the listeners, or an error.
func (t *tokens) push(token string, err error) {
	t.mu.Lock()
	listeners := slices.Collect(maps.Keys(t.mu.listeners))
	t.mu.Unlock()
	for _, l := range listeners {
		if err != nil {
			l.OnError(err)
		} else {
			l.OnNext(auth.NewBasicCredentials("teller", token))
		}
	}
}

// subscribed returns how many listeners there are.
func (t *tokens) subscribed() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.mu.listeners)
}

// Subscribe implements auth.StreamingCredentialsProvider.
func (t *tokens) Subscribe(listener auth.CredentialsListener) (auth.Credentials, auth.UnsubscribeFunc, error) {
	t.mu.Lock()
	onSubscribe := t.mu.onSubscribe
	t.mu.Unlock()
	if onSubscribe != nil {
		if err := onSubscribe(); err != nil {
			return nil, nil, err
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.stopped = t.mu.stopped || t.mu.listeners != nil && len(t.mu.listeners) == 0
	if t.mu.listeners == nil {
		t.mu.listeners = make(map[auth.CredentialsListener]bool)
	}
	t.mu.listeners[listener] = true
	return auth.NewBasicCredentials("teller", t.mu.token), func() error {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.mu.listeners, listener)
		return nil
	}, nil
}

// A service starts while its server is away.
func TestADoorPassesTheLateStartOn(t *testing.T) {
	t.Parallel()
	options := &redis.Options{Addr: "127.0.0.1:1"} // nothing listens there
	client := redis.NewClient(options)
	defer client.Close()
	first, err := goredis.Dial(t.Context(), client, signalbox.WithLazyConnect())
	require.NoError(t, err)
	second, err := goredis.DialOptions(t.Context(), options, signalbox.WithLazyConnect())
	require.NoError(t, err)
	for _, s := range []*signalbox.Session{first, second} {
		require.ErrorContains(t, s.Ping(t.Context()), "127.0.0.1:1")
		require.NoError(t, s.Close(t.Context()))
	}
}
