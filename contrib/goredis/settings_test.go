// SPDX-License-Identifier: Apache-2.0

package goredis_test

import (
	"context"
	"crypto/tls"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/contrib/goredis"
	"github.com/signalbox-go/signalbox/internal/testing/dialtest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// The settings that are combined, and their values.
const (
	network = iota
	security
	dialer
	credentials
	protocol
	database
	kind
	through
)

var values = dialtest.Factors{
	network:     {"", "tcp", "tcp4", "tcp6", "unix", "a path"},
	security:    {"plain", "TLS"},
	dialer:      {"none", "own", "own with TLS", "NewDialer"},
	credentials: {"none", "user", "password", "user and password", "function", "function with a context", "stream"},
	protocol:    {"0", "2", "3"},
	database:    {"0", "3"},
	kind:        {"single", "cluster", "sentinel", "sentinel with a password"},
	through:     {"options", "client", "universal"},
}

// setting is a row of values, by name.
type setting []int

func (s setting) is(factor int, names ...string) bool { return values.Is(s, factor, names...) }

func (s setting) isSentinel() bool { return s.is(kind, "sentinel", "sentinel with a password") }

// exists reports whether go-redis has such a setting.
func (s setting) exists() bool {
	several := s[kind] != dialtest.Undecided && !s.is(kind, "single")
	named := s[network] != dialtest.Undecided && !s.is(network, "") && !s.is(network, "a path")
	switch {
	case named && (several || s.is(through, "universal")), s.is(network, "a path") && several:
		return false // a field of redis.Options alone
	case s.is(kind, "cluster") && s.is(database, "3"), s.isSentinel() && s.is(through, "client"):
		return false
	case s.isSentinel() && s.is(credentials, "stream"):
		return false // go-redis 9.22 panics
	}
	return true
}

// isRefused reports whether a session refuses the setting before it writes anything. Such rows say nothing of their other pairs.
func (s setting) isRefused() bool { return s.is(security, "TLS") && s.is(dialer, "own") }

// differences are what a session writes otherwise than go-redis does, with the reason.
var differences = map[string]struct {
	of   func(s setting) bool
	want func(theirs []dialtest.Greeting) []dialtest.Greeting
}{
	"go-redis ignores the TLSConfig beside a Dialer, and writes the password in the clear: refused, and nothing is written": {
		setting.isRefused,
		func([]dialtest.Greeting) []dialtest.Greeting { return nil },
	},
	"go-redis speaks RESP3 to sentinels, whatever Protocol is": {
		func(s setting) bool { return s.is(protocol, "2") && s.isSentinel() && !s.isRefused() },
		func(theirs []dialtest.Greeting) []dialtest.Greeting {
			for i := range theirs {
				theirs[i].Protocol = 2
			}
			return theirs
		},
	},
}

// A session writes what go-redis writes when it connects: to the same addresses over the same networks, with or without TLS, with the same
// user, password, database, protocol and name. Every two values of settings are together in a case.
func TestASessionConnectsAsGoRedisDoes(t *testing.T) {
	t.Parallel()
	rows := values.Pairs(func(row []int) bool { return setting(row).exists() && !setting(row).isRefused() })
	rows = append(rows, values.Pairs(func(row []int) bool { // those that are refused
		return setting(row).exists() && !setting(row).is(security, "plain") && (row[dialer] == dialtest.Undecided || setting(row).is(dialer, "own"))
	})...)
	seen := make(map[string]bool)
	for _, row := range rows {
		s, name := setting(row), values.Name(row)
		theirs, theirDials, theirErr := s.run(t, func(u universal) error { return u.useClient() })
		ours, ourDials, ourErr := s.run(t, func(u universal) error { return u.useSession() })
		for why, d := range differences {
			if d.of(s) {
				seen[why] = true
				require.NotEqual(t, d.want(slices.Clone(theirs)), theirs, "%s: %s", name, why)
				theirs = d.want(theirs)
			}
		}
		if len(theirs) == 0 && theirErr == nil {
			require.ErrorIs(t, ourErr, signalbox.ErrBadOption, name)
		} else {
			require.Equal(t, theirErr == nil, ourErr == nil, "%s: go-redis %v, session %v", name, theirErr, ourErr)
			require.Equal(t, theirDials, ourDials, name)
		}
		require.Equal(t, theirs, ours, name)
	}
	require.Len(t, seen, len(differences))
	t.Log(len(rows), "cases")
}

// No later connection writes in the clear what the first one wrote over TLS: after an end, a redirection, a failover, and for messages.
func TestNoLaterConnectionIsInTheClear(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "connections end and are made anew for a while")
	moved := make(chan int, 1)
	moved <- 0
	t.Run("rows", func(t *testing.T) {
		for _, row := range values.Pairs(func(row []int) bool {
			s := setting(row)
			return s.exists() && !s.isRefused() && !s.is(security, "plain")
		}) {
			t.Run(values.Name(row), func(t *testing.T) {
				t.Parallel()
				server := dialtest.StartServer(t)
				server.Restless = true
				_, _, err := setting(row).runAt(server, func(u universal) error {
					session, err := u.dial(t.Context())
					if err == nil {
						dialtest.Use(session)
					}
					return err
				})
				require.NoError(t, err)
				words, n := server.Clear()
				require.Empty(t, words)
				moved <- n + <-moved
			})
		}
	})
	require.Greater(t, <-moved, 10)
}

// universal are the options of a setting. They are written as redis.UniversalOptions.
type universal struct {
	*redis.UniversalOptions
	setting
}

// run connects with the settings, and returns the greetings, and what a dialer of the service was asked for.
func (s setting) run(t *testing.T, use func(universal) error) (greetings []dialtest.Greeting, dials []string, err error) {
	t.Helper()
	greetings, dials, err = s.runAt(dialtest.StartServer(t), use)
	for i := range greetings {
		require.Equal(t, greetings[i].Password == "", greetings[i].User == "", greetings)
	}
	return greetings, dials, err
}

// runAt is run at a server.
func (s setting) runAt(server *dialtest.Server, use func(universal) error) (greetings []dialtest.Greeting, dials []string, err error) {
	server.Cluster = s.is(kind, "cluster")
	o := &redis.UniversalOptions{
		ClientName: "shop", MaxRetries: -1, DialerRetries: 1, MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		Addrs: []string{server.Addr(dialtest.ToServer)}, IsClusterMode: server.Cluster, DB: s[database] * 3,
	}
	switch {
	case s.is(network, "unix"), s.is(network, "a path"):
		o.Addrs = []string{server.Socket()}
	case s.is(kind, "single"):
		o.Addrs = []string{server.Local(dialtest.ToServer)}
	case s.isSentinel():
		o.MasterName, o.Addrs = "main", []string{server.Addr(dialtest.ToSentinel)}
	}
	if s.is(kind, "sentinel with a password") {
		o.SentinelUsername, o.SentinelPassword = "watch", "wright"
	}
	if s.is(protocol, "2") || s.is(protocol, "3") {
		o.Protocol = s[protocol] + 1
	}
	if s.is(security, "TLS") {
		o.TLSConfig = server.TLSConfig()
	}
	dialed := server.Dials()
	o.Dialer = s.dialer(server, dialed.Note)
	s.setCredentials(o)
	err = use(universal{o, s})
	return server.Written(), dialed.Found(), err
}

// dialer returns the Dialer of a setting, which passes what it is asked for to note.
func (s setting) dialer(server *dialtest.Server, note func(network, addr string)) func(ctx context.Context, network, addr string) (net.Conn, error) {
	switch values[dialer][s[dialer]] {
	case "own":
		return func(ctx context.Context, network, addr string) (net.Conn, error) {
			note(network, addr)
			return new(net.Dialer).DialContext(ctx, network, addr)
		}
	case "own with TLS":
		return func(ctx context.Context, network, addr string) (net.Conn, error) {
			note(network, addr)
			return (&tls.Dialer{Config: server.TLSConfig()}).DialContext(ctx, network, addr)
		}
	case "NewDialer":
		filled := &redis.Options{DialTimeout: time.Second}
		if s.is(security, "TLS") {
			filled.TLSConfig = server.TLSConfig()
		}
		return redis.NewDialer(filled)
	}
	return nil
}

func (s setting) setCredentials(o *redis.UniversalOptions) {
	switch values[credentials][s[credentials]] {
	case "user":
		o.Username = "teller"
	case "password":
		o.Password = "right"
	case "user and password":
		o.Username, o.Password = "teller", "right"
	case "function":
		o.Username, o.Password = "another", "wrong"
		o.CredentialsProvider = func() (string, string) { return "teller", "right" }
	case "function with a context":
		o.CredentialsProvider = func() (string, string) { return "another", "wrong" }
		o.CredentialsProviderContext = func(context.Context) (string, string, error) { return "teller", "right", nil }
	case "stream":
		o.CredentialsProvider = func() (string, string) { return "another", "wrong" }
		provider := new(tokens)
		provider.set("right")
		o.StreamingCredentialsProvider = provider
	}
}

// simple returns the options of a single server.
func (u universal) simple() *redis.Options {
	o := u.Simple()
	if !u.is(network, "a path") {
		o.Network = values[network][u.setting[network]]
	}
	return o
}

// client returns a client of go-redis.
func (u universal) client() redis.UniversalClient {
	switch {
	case u.is(through, "universal"):
		return redis.NewUniversalClient(u.UniversalOptions)
	case u.is(kind, "single"):
		return redis.NewClient(u.simple())
	case u.is(kind, "cluster"):
		return redis.NewClusterClient(u.Cluster())
	}
	return redis.NewFailoverClient(u.Failover())
}

func (u universal) useClient() error {
	client := u.client()
	err := client.Set(context.Background(), "a", "b", 0).Err()
	_ = client.Close()
	return err
}

func (u universal) useSession() error {
	ctx := context.Background()
	session, err := u.dial(ctx)
	if err != nil {
		return err
	}
	return session.Close(ctx)
}

func (u universal) dial(ctx context.Context) (*signalbox.Session, error) {
	switch {
	case u.is(through, "universal"):
		return goredis.DialOptions(ctx, u.UniversalOptions)
	case u.is(through, "client"):
		client := u.client()
		_ = client.Close()
		return goredis.Dial(ctx, client)
	case u.is(kind, "single"):
		return goredis.DialOptions(ctx, u.simple())
	case u.is(kind, "cluster"):
		return goredis.DialOptions(ctx, u.Cluster())
	}
	return goredis.DialOptions(ctx, u.Failover())
}
